package identity

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"starling.dev/starling/crdt"
)

// history makes a random one: machines join, leave, are removed, restored and renamed at
// replicas that hear of each other now and then. It returns all records in the order
// they were made.
func history(t *rapid.T, w *world) [][]byte {
	must(t, w.begin("m0", rapid.SampledFrom([]Policy{PolicyOpen, PolicyDelegated}).Draw(t, "policy")))
	machines := []string{"m0"}
	for step := range rapid.IntRange(3, 14).Draw(t, "steps") {
		pick := func(label string) string { return rapid.SampledFrom(machines).Draw(t, label) }
		at, other := pick("at"), pick("other")
		by := rapid.SampledFrom([]string{at, at, at, "root"}).Draw(t, "by")
		l := w.logs[at]
		// Many of these are refused here and now; what is refused leaves no record.
		switch rapid.SampledFrom([]string{"join", "join", "replace", "remove", "restore", "rename", "delegate", "raw", "sync"}).Draw(t, "verb") {
		case "join":
			j := joining{machine: fmt.Sprintf("m%d", step+1), at: at}
			machines = append(machines, joinIfPossible(w, j)...)
		case "replace":
			j := joining{machine: fmt.Sprintf("m%d", step+1), at: at, name: other, replace: true, silent: true}
			machines = append(machines, joinIfPossible(w, j)...)
		case "remove":
			_, _ = l.RemoveMachine(w.key(by), w.clock(), Remove{Machine: w.id(other), Cut: crdt.Heads{}})
		case "restore":
			_, _ = l.RestoreMachine(w.key("root"), w.clock(), w.id(other))
		case "rename":
			_, _ = l.RenameMachine(w.key(by), w.clock(), w.id(other), rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name"))
		case "delegate":
			_, _ = l.DelegateTo(w.key("root"), w.clock(), w.id(other))
		case "raw":
			addRaw(t, w, l, by, other)
		case "sync":
			must(t, w.sync(at, other))
		}
		w.now = w.now.Add(time.Duration(rapid.IntRange(0, 1).Draw(t, "seconds")) * time.Second)
	}
	return allRecords(w, machines)
}

// joinIfPossible returns the machine's name if it was admitted.
func joinIfPossible(w *world, j joining) []string {
	j.token = j.machine
	if w.invite(j.at, j.at, j.token, time.Hour) != nil {
		return nil
	}
	if _, err := w.join(j); err != nil {
		return nil
	}
	return []string{j.machine}
}

// addRaw adds what an honest program would not: records that its issuer has no right to.
func addRaw(t *rapid.T, w *world, l *Log, by, other string) {
	body := rapid.SampledFrom([]Body{
		Remove{Machine: w.id(other), Cut: crdt.Heads{}},
		Voters{Epoch: 2, Machines: []crdt.MachineID{w.id(other)}},
		Admit{PublicKey: publicOf(w.key("root")), Name: "r"},
		Unknown{Kind: 99, Raw: []byte("later")},
		Delegate{Machine: w.id(other)},
	}).Draw(t, "body")
	if _, ok := body.(Admit); ok {
		by = "root" // a machine's would lack a proof, and no log would keep it
	}
	rec, err := l.Sign(w.key(by), w.clock(), body)
	must(t, err)
	_, err = l.Add(rec.Bytes())
	must(t, err)
}

func allRecords(w *world, machines []string) [][]byte {
	seen := map[crdt.ID]bool{}
	var out [][]byte
	for _, name := range machines {
		for _, nd := range w.logs[name].nodes {
			if !seen[nd.rec.id] {
				seen[nd.rec.id] = true
				out = append(out, nd.rec.raw)
			}
		}
	}
	return out
}

// TestAnyOrder: whatever the order and however often the records come, every replica
// comes to the same verdicts, machines, names, voters and digest.
func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		records := history(t, w)
		g := w.logs["m0"].Genesis()
		want := deliver(t, g, records)
		order := rapid.Permutation(slices.Concat(records, records[:len(records)/2])).Draw(t, "order")
		got := deliver(t, g, order)
		if a, b := show(want.Snapshot()), show(got.Snapshot()); a != b {
			t.Fatalf("one order gives\n%s\nanother\n%s", a, b)
		}
		if want.Digest() != got.Digest() || got.Waiting() != 0 {
			t.Fatalf("digests %s and %s, %d waiting", want.Digest(), got.Digest(), got.Waiting())
		}
		samePermissions(t, w, want, got)
	})
}

func samePermissions(t *rapid.T, w *world, a, b *Log) {
	for name := range w.keys {
		for _, nd := range a.nodes {
			at := crdt.Place{Machine: w.id(name), Actor: testActor("a"), Head: testHead(1)}
			c := crdt.Change{Author: "loop:x", At: at, Auth: []crdt.ID{nd.rec.id}}
			if x, y := fmt.Sprint(a.Permits(c)), fmt.Sprint(b.Permits(c)); x != y {
				t.Fatalf("Permits: %s or %s", x, y)
			}
			if x, y := a.Snapshot().Standing(at), b.Snapshot().Standing(at); !slices.Equal(x, y) {
				t.Fatalf("Standing: %s or %s", x, y)
			}
		}
	}
}

// TestStandingTellsOfVerdicts: while the standing of a place stays the same, so do the
// verdicts about what stands there.
func TestStandingTellsOfVerdicts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		records := history(t, w)
		l := deliver(t, w.logs["m0"].Genesis(), nil)
		type verdict struct {
			change   crdt.Change
			standing []crdt.ID
			err      string
		}
		var before []verdict
		for _, raw := range records {
			_, err := l.Add(raw)
			must(t, err)
			for i, v := range before {
				now, standing := fmt.Sprint(l.Permits(v.change)), l.Snapshot().Standing(v.change.At)
				if (now == "<nil>") != (v.err == "<nil>") && slices.Equal(standing, v.standing) {
					t.Fatalf("%v: first %s, then %s, and still %v", v.change.At, v.err, now, standing)
				}
				before[i].err, before[i].standing = now, standing
			}
			for name := range w.keys {
				for _, actor := range []string{"a", "b"} {
					at := crdt.Place{Machine: w.id(name), Actor: testActor(actor), Head: testHead(3)}
					c := crdt.Change{Author: "loop:x", At: at, Auth: l.Seen(w.id(name))}
					before = append(before, verdict{c, l.Snapshot().Standing(at), fmt.Sprint(l.Permits(c))})
				}
			}
		}
	})
}

func deliver(t *rapid.T, g Genesis, records [][]byte) *Log {
	l, err := NewLog(g)
	must(t, err)
	for _, raw := range records {
		_, err := l.Add(raw)
		must(t, err)
	}
	return l
}

func must(t interface {
	Helper()
	Fatal(...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func twoMachines(t *testing.T) *world {
	t.Helper()
	w := newWorld()
	must(t, w.begin("m1", PolicyOpen))
	must(t, w.invite("m1", "m1", "t", time.Hour))
	_, err := w.join(joining{machine: "m2", token: "t", at: "m1"})
	must(t, err)
	return w
}

// TestAddRefuses lists what no log takes in.
func TestAddRefuses(t *testing.T) {
	w := twoMachines(t)
	other := newWorld()
	other.draws = 1000
	must(t, other.begin("m1", PolicyOpen))
	rename := Rename{Machine: w.id("m1"), Name: "x"}
	signed := func(l *Log, key string) []byte {
		rec, err := l.Sign(w.key(key), w.clock(), rename)
		must(t, err)
		return rec.Bytes()
	}
	unproven, err := w.logs["m1"].Sign(w.key("m1"), w.clock(), Admit{PublicKey: publicOf(w.key("x")), Name: "x"})
	must(t, err)
	flipped := slices.Clone(signed(w.logs["m1"], "m1"))
	flipped[len(flipped)-1] ^= 1
	retold := slices.Clone(signed(w.logs["m1"], "m1"))
	at := bytes.LastIndexByte(retold, 'x')
	retold[at] = 'z'

	for _, tc := range []struct {
		name string
		raw  []byte
		want error
	}{
		{"empty", nil, ErrMalformed},
		{"cut short", flipped[:40], ErrMalformed},
		{"longer", append(slices.Clone(flipped), 0), ErrMalformed},
		{"too large", make([]byte, MaxRecord+1), ErrMalformed},
		{"wrong signature", flipped, ErrForged},
		{"content altered", retold, ErrForged},
		{"of another cluster", signed(other.logs["m1"], "m1"), ErrForged},
		{"an admission without a grant", unproven.Bytes(), ErrForged},
		{"of a stranger", signed(w.logs["m1"], "nobody"), ErrStranger},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := w.logs["m1"].Digest()
			grew, err := w.logs["m1"].Add(tc.raw)
			if grew || !errors.Is(err, tc.want) {
				t.Fatalf("grew %v, error %v; want %v", grew, err, tc.want)
			}
			if w.logs["m1"].Digest() != before {
				t.Fatal("the log changed")
			}
		})
	}
}

// TestWaiting: records wait for their parents, within bounds, and a parent releases all
// that waited for it.
func TestWaiting(t *testing.T) {
	w := twoMachines(t)
	l := w.logs["m1"]
	for range 20 {
		_, err := l.RenameMachine(w.key("m1"), w.clock(), w.id("m1"), "n")
		must(t, err)
	}
	records := l.Since(0)
	fresh, err := NewLog(l.Genesis())
	must(t, err)
	for i := len(records) - 1; i > 0; i-- {
		if grew, err := fresh.Add(records[i]); grew || err != nil {
			t.Fatalf("record %d without parents: grew %v, error %v", i, grew, err)
		}
	}
	if fresh.Len() != 0 || fresh.Waiting() != len(records)-1 {
		t.Fatalf("%d attached, %d wait", fresh.Len(), fresh.Waiting())
	}
	if grew, err := fresh.Add(records[0]); !grew || err != nil {
		t.Fatalf("the first record: grew %v, error %v", grew, err)
	}
	if fresh.Len() != len(records) || fresh.Waiting() != 0 || fresh.Digest() != l.Digest() {
		t.Fatalf("%d of %d attached, %d wait", fresh.Len(), len(records), fresh.Waiting())
	}
}

func TestWaitingIsBounded(t *testing.T) {
	var q waiting
	for i := range maxWaiting + 10 {
		id := crdt.ID{byte(i), byte(i >> 8)}
		q.put(Record{raw: make([]byte, 100), id: id}, crdt.ID{1})
		q.put(Record{raw: make([]byte, 100), id: id}, crdt.ID{1}) // again
	}
	if len(q.records) != maxWaiting || q.bytes != 100*maxWaiting {
		t.Fatalf("%d records of %d bytes wait", len(q.records), q.bytes)
	}
	if q.records[0].rec.id != (crdt.ID{10}) {
		t.Fatalf("the oldest left is %s", q.records[0].rec.id)
	}
	for range 100 {
		q.put(Record{raw: make([]byte, MaxRecord), id: crdt.ID{2, 2, byte(q.bytes), byte(q.bytes >> 8), byte(len(q.records))}}, crdt.ID{1})
	}
	if q.bytes > maxWaitingBytes {
		t.Fatalf("%d bytes wait", q.bytes)
	}
	left := len(q.records)
	if got := q.take(crdt.ID{1}); len(got) != left || q.bytes != 0 {
		t.Fatalf("took %d of %d, %d bytes left", len(got), left, q.bytes)
	}
}

// TestMissingInParts: a peer that is sent a few records at a time ends with them all,
// and nobody is sent what it has.
func TestMissingInParts(t *testing.T) {
	w := twoMachines(t)
	from := w.logs["m1"]
	to, err := NewLog(from.Genesis())
	must(t, err)
	rounds := 0
	for part := from.Missing(to.Heads(), 2); len(part) > 0; part = from.Missing(to.Heads(), 2) {
		if len(part) > 2 {
			t.Fatalf("%d records at once", len(part))
		}
		for _, raw := range part {
			if grew, err := to.Add(raw); !grew || err != nil {
				t.Fatalf("grew %v, error %v", grew, err)
			}
		}
		rounds++
	}
	if to.Digest() != from.Digest() || rounds != (from.Len()+1)/2 {
		t.Fatalf("after %d rounds %d of %d records", rounds, to.Len(), from.Len())
	}
	if extra := from.Missing(append(to.Heads(), crdt.ID{1}), 10); len(extra) != 0 {
		t.Fatalf("%d records sent again", len(extra))
	}
}

// TestOpenLog: a log comes back from a disk as it was; a disk that lost a record is
// found out.
func TestOpenLog(t *testing.T) {
	w := twoMachines(t)
	l := w.logs["m1"]
	again, err := OpenLog(l.Genesis(), l.Since(0))
	must(t, err)
	loaded, err := LoadLog(l.Genesis(), l.Since(0))
	must(t, err)
	if show(again.Snapshot()) != show(l.Snapshot()) || show(loaded.Snapshot()) != show(l.Snapshot()) {
		t.Fatal("the log came back different")
	}
	backwards := l.Since(0)
	slices.Reverse(backwards)
	if loaded, err = LoadLog(l.Genesis(), backwards); err != nil || show(loaded.Snapshot()) != show(l.Snapshot()) {
		t.Fatalf("the log came back different from a disk that lists it backwards: %v", err)
	}
	lost := slices.Delete(l.Since(0), 1, 2)
	if _, err := OpenLog(l.Genesis(), lost); err == nil {
		t.Fatal("a missing record went unnoticed")
	}
	if _, err := LoadLog(l.Genesis(), lost); err == nil {
		t.Fatal("a record missing on disk went unnoticed")
	}
	if n := len(l.Since(l.Len() - 1)); n != 1 {
		t.Fatalf("%d records since the last but one", n)
	}
}

// TestManyHeads: however many heads there are, changes and records name few enough, and
// the issuer's own admission is among what they reach.
func TestManyHeads(t *testing.T) {
	w := twoMachines(t)
	l := w.logs["m1"]
	base := l.Heads()
	for i := range 3 * crdt.MaxParents {
		rec, err := SignRecord(l.Cluster(), w.key("root"), nil, uint64(i), Rename{Machine: w.id("m1"), Name: "n"})
		must(t, err)
		_, err = l.Add(rec.Bytes())
		must(t, err)
	}
	seen := l.Seen(w.id("m2"))
	if len(seen) != crdt.MaxParents || !slices.Contains(seen, base[0]) || !slices.IsSortedFunc(seen, crdt.ID.Compare) {
		t.Fatalf("%d heads, with the one that counts: %v", len(seen), slices.Contains(seen, base[0]))
	}
	must(t, l.Permits(crdt.Change{At: crdt.Place{Machine: w.id("m2")}, Auth: seen}))
	if _, err := l.RenameMachine(w.key("m2"), w.clock(), w.id("m2"), "merged"); err != nil {
		t.Fatal(err)
	}
	if n := len(l.Heads()); n != 1 {
		t.Fatalf("%d heads after a record on top of them all", n)
	}
}

// TestStanding changes when a cut leaves entries out, and not when it has them all.
func TestStanding(t *testing.T) {
	w := twoMachines(t)
	l := w.logs["m1"]
	place := func(seq uint64) crdt.Place {
		return crdt.Place{Machine: w.id("m2"), Actor: testActor("a"), Head: testHead(seq)}
	}
	inside, outside := l.Snapshot().Standing(place(5)), l.Snapshot().Standing(place(6))
	_, err := l.RenameMachine(w.key("m1"), w.clock(), w.id("m1"), "n")
	must(t, err)
	_, err = l.RemoveMachine(w.key("m1"), w.clock(), Remove{Machine: w.id("m2"), Cut: crdt.Heads{testActor("a"): testHead(5)}})
	must(t, err)
	if got := l.Snapshot().Standing(place(5)); !slices.Equal(got, inside) {
		t.Errorf("a rename and a cut around everything changed %v to %v", inside, got)
	}
	if got := l.Snapshot().Standing(place(6)); slices.Equal(got, outside) {
		t.Errorf("a cut that leaves out an entry changed nothing: %v", got)
	}
}
