package storetest

import (
	"bytes"
	"fmt"
	"testing"

	"starling.dev/starling/crdt"
)

// Run checks a disk. open returns an empty one for each test.
func Run(t *testing.T, open func(t *testing.T) Disk) {
	tests := []struct {
		name string
		run  func(*testing.T, Disk)
	}{
		{"an empty disk recovers to nothing", testEmpty},
		{"a commit survives a crash", testCommitSurvives},
		{"batches come back in order", testOrder},
		{"a repeated batch is skipped", testRepeated},
		{"local keys are put, replaced and deleted", testLocal},
		{"an empty value is not a deleted one", testEmptyValue},
		{"the last write of a key in one commit wins", testLocalTwice},
		{"the high-water stays when a commit names none", testHighWaterStays},
		{"a large commit is whole", testLarge},
		{"an empty commit changes nothing", testEmptyCommit},
		{"the caller's slices are not kept", testNotKept},
		{"many crashes", testManyCrashes},
		{"compacted batches take the place of others", testCompacted},
		{"what reaches into the middle of others comes back once", testLongerBatch},
		{"what does not fit is not compacted", testCompactedMisfits},
		{"a large log is compacted as a whole", testCompactedLarge},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

func testEmpty(t *testing.T, d Disk) {
	c := contents(t, d)
	sameBatches(t, c.Batches, nil)
	sameLocal(t, c.Local, nil)
	if c.HighWater != (crdt.HighWater{}) {
		t.Errorf("own head %v on an empty disk", c.HighWater)
	}
}

func testCommitSurvives(t *testing.T, d Disk) {
	a := Actor(1)
	want := crdt.Commit{
		Batches:   []crdt.Batch{Batch(a, 1, 3, 300)},
		Local:     []crdt.LocalWrite{{Key: "clock", Value: []byte("7")}},
		HighWater: Own(a, 3),
	}
	commit(t, d, want)
	crash(t, d)
	c := contents(t, d)
	sameBatches(t, c.Batches, want.Batches)
	sameLocal(t, c.Local, want.Local)
	if c.HighWater != want.HighWater {
		t.Errorf("own head %v, want %v", c.HighWater, want.HighWater)
	}
}

func testOrder(t *testing.T, d Disk) {
	a, b := Actor(1), Actor(2)
	log := []crdt.Batch{Batch(a, 1, 1, 10), Batch(a, 2, 255, 10), Batch(a, 257, 2, 10), Batch(b, 1, 1, 10)}
	for _, i := range []int{3, 0, 1, 2} {
		commit(t, d, crdt.Commit{Batches: log[i : i+1]})
	}
	sameBatches(t, contents(t, d).Batches, log)
	crash(t, d)
	sameBatches(t, contents(t, d).Batches, log)
}

func testRepeated(t *testing.T, d Disk) {
	first := Batch(Actor(1), 1, 2, 50)
	other := Batch(Actor(1), 1, 1, 60)
	commit(t, d, crdt.Commit{Batches: []crdt.Batch{first, first}})
	commit(t, d, crdt.Commit{Batches: []crdt.Batch{other}})
	crash(t, d)
	sameBatches(t, contents(t, d).Batches, []crdt.Batch{first})
}

func testLocal(t *testing.T, d Disk) {
	put := func(key, value string) crdt.LocalWrite { return crdt.LocalWrite{Key: key, Value: []byte(value)} }
	commit(t, d, crdt.Commit{Local: []crdt.LocalWrite{put("b", "1"), put("a/x", "2"), put("a", "3"), put("ab", "4")}})
	commit(t, d, crdt.Commit{Local: []crdt.LocalWrite{put("a", "5"), {Key: "b"}, {Key: "absent"}}})
	crash(t, d)
	sameLocal(t, contents(t, d).Local, []crdt.LocalWrite{put("a", "5"), put("a/x", "2"), put("ab", "4")})
}

func testEmptyValue(t *testing.T, d Disk) {
	commit(t, d, crdt.Commit{Local: []crdt.LocalWrite{{Key: "k", Value: []byte{}}}})
	crash(t, d)
	sameLocal(t, contents(t, d).Local, []crdt.LocalWrite{{Key: "k", Value: []byte{}}})
}

func testLocalTwice(t *testing.T, d Disk) {
	commit(t, d, crdt.Commit{Local: []crdt.LocalWrite{
		{Key: "k", Value: []byte("old")}, {Key: "gone", Value: []byte("x")},
		{Key: "k", Value: []byte("new")}, {Key: "gone"},
	}})
	crash(t, d)
	sameLocal(t, contents(t, d).Local, []crdt.LocalWrite{{Key: "k", Value: []byte("new")}})
}

func testHighWaterStays(t *testing.T, d Disk) {
	own := Own(Actor(1), 1)
	commit(t, d, crdt.Commit{Batches: []crdt.Batch{Batch(Actor(1), 1, 1, 10)}, HighWater: own})
	commit(t, d, crdt.Commit{Batches: []crdt.Batch{Batch(Actor(2), 1, 1, 10)}})
	crash(t, d)
	if got := contents(t, d).HighWater; got != own {
		t.Errorf("own head %v, want %v", got, own)
	}
}

// testLarge is far beyond what one transaction of a small database holds.
func testLarge(t *testing.T, d Disk) {
	var c crdt.Commit
	for n := range byte(6) {
		c.Batches = append(c.Batches, Batch(Actor(n+1), 1, 3000, 300))
	}
	for n := range 300 {
		c.Local = append(c.Local, crdt.LocalWrite{Key: fmt.Sprintf("k%03d", n), Value: make([]byte, 2000)})
	}
	c.Local = append(c.Local, crdt.LocalWrite{Key: "large", Value: bytes.Repeat([]byte("x"), 900_000)})
	commit(t, d, c)
	crash(t, d)
	got := contents(t, d)
	sameBatches(t, got.Batches, c.Batches)
	sameLocal(t, got.Local, c.Local)

	// A large value becomes a small one, and nothing of it stays.
	small := crdt.LocalWrite{Key: "large", Value: []byte("small")}
	commit(t, d, crdt.Commit{Local: []crdt.LocalWrite{small}})
	c.Local[300] = small
	crash(t, d)
	sameLocal(t, contents(t, d).Local, c.Local)
}

func testEmptyCommit(t *testing.T, d Disk) {
	commit(t, d, crdt.Commit{})
	crash(t, d)
	testEmpty(t, d)
}

func testNotKept(t *testing.T, d Disk) {
	b := Batch(Actor(1), 1, 1, 100)
	want := Batch(Actor(1), 1, 1, 100)
	value := []byte("value")
	commit(t, d, crdt.Commit{Batches: []crdt.Batch{b}, Local: []crdt.LocalWrite{{Key: "k", Value: value}}})
	clear(b.Changes[0])
	clear(value)
	got := contents(t, d)
	sameBatches(t, got.Batches, []crdt.Batch{want})
	sameLocal(t, got.Local, []crdt.LocalWrite{{Key: "k", Value: []byte("value")}})
}

func testManyCrashes(t *testing.T, d Disk) {
	var want []crdt.Batch
	for seq := uint64(1); seq <= 30; seq++ {
		b := Batch(Actor(1), seq, 1, 200)
		want = append(want, b)
		commit(t, d, crdt.Commit{Batches: []crdt.Batch{b}, HighWater: Own(Actor(1), seq)})
		if seq%3 == 0 {
			crash(t, d)
		}
		c := contents(t, d)
		sameBatches(t, c.Batches, want)
		if c.HighWater != Own(Actor(1), seq) {
			t.Fatalf("own head %v after entry %d", c.HighWater, seq)
		}
	}
}

func crash(t *testing.T, d Disk) {
	t.Helper()
	if err := d.Crash(); err != nil {
		t.Fatalf("start after a crash: %v", err)
	}
}
