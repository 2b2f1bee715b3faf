package crdt

import (
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

var web = Ref{"Pod", "default", "web"}

// rules are the ownership and authority that the tests judge by.
func rules() Config {
	owners := map[string]string{
		"spec.auto": "scaler", "lifecycle.turn": "scheduler",
		"status.machine": "scheduler", "status.address": "address", "status.score": "scheduler",
	}
	steps := map[string]string{"schedule": "scheduler", "address": "address"}
	return Config{
		Level:     1,
		Owner:     func(_, path string) string { return owners[path] },
		StepOwner: func(_, step string) string { return steps[step] },
		SpecOwner: func(kind, creator string) string {
			if kind == "Child" {
				return loopName(creator)
			}
			return ""
		},
		Permits: func(c Change) error {
			if c.Message == "forbidden" {
				return errors.New("no role allows it")
			}
			return nil
		},
	}
}

func newState(t testing.TB, cfg Config) *State {
	t.Helper()
	s, err := NewState(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type entry struct {
	change Change
	id     ID
}

// sealed gives a change its ID, through its encoding as in a log.
func sealed(t testing.TB, c Change) entry {
	t.Helper()
	b := c.Encode()
	decoded, err := DecodeChange(b)
	if err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
	return entry{decoded, ChangeID(ActorID{}, b)}
}

// writer makes the changes of one object as an author with a slow clock would,
// unless told otherwise.
type writer struct {
	t     testing.TB
	ref   Ref
	nonce uint64
}

func (w *writer) make(hlc uint64, author string, inc ID, parents []ID, ops ...Op) entry {
	w.nonce++
	parents = slices.Clone(parents)
	slices.SortFunc(parents, ID.Compare)
	return sealed(w.t, Change{
		Object: w.ref, Incarnation: inc, Parents: parents, Author: author,
		HLC: hlc, Nonce: w.nonce, Level: 1, Ops: ops,
	})
}

func (w *writer) create(hlc uint64, author string, ops ...Op) entry {
	return w.make(hlc, author, ID{}, nil, append([]Op{{Kind: OpCreate}}, ops...)...)
}

func set(path, value string) Op { return Op{Kind: OpSet, Path: path, Value: value} }
func unset(path string) Op      { return Op{Kind: OpUnset, Path: path} }
func result(step string, g Register) Op {
	return Op{Kind: OpResult, Path: step, Register: &g}
}

func applyAll(s *State, entries ...entry) {
	for _, e := range entries {
		s.Apply(e.change, e.id)
	}
}

func machine(n byte) MachineID { return MachineID{n} }

func testKey(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(slices.Repeat([]byte{seed}, ed25519.SeedSize))
}

func public(priv ed25519.PrivateKey) ed25519.PublicKey { return priv.Public().(ed25519.PublicKey) }

func idOf(s string) ID { return sha256.Sum256([]byte(s)) }

// dump prints everything that readers can see of a state, sorted.
func dump(s *State) string {
	var b strings.Builder
	refs := slices.SortedFunc(maps.Keys(s.slots), Ref.Compare)
	for _, ref := range refs {
		holder, held := s.Object(ref)
		for _, o := range s.Incarnations(ref) {
			fmt.Fprintf(&b, "%s %s holder=%v\n", ref, o.ID(), held && o.ID() == holder.ID())
			dumpObject(&b, o)
		}
		for _, r := range s.Refused(ref) {
			fmt.Fprintf(&b, "  refused %s %s %d: %s\n", r.Change, r.Author, r.HLC, r.Reason)
		}
	}
	for _, w := range s.Waiting() {
		fmt.Fprintf(&b, "waiting %s %s %s for %s\n", w.Object, w.Change, w.Author, w.For)
	}
	return b.String()
}

func dumpObject(b *strings.Builder, o *Object) {
	fmt.Fprintf(b, "  by %s deleted=%v holds=%v held=%v losers=%v at %q\n",
		o.Creator(), o.Deleted(), o.HoldsName(), o.Held(), o.Losers(), o.Current())
	fields := o.Fields()
	for _, path := range slices.Sorted(maps.Keys(fields)) {
		fmt.Fprintf(b, "  %s = %+v\n", path, fields[path])
	}
	registers := o.Registers()
	for _, step := range slices.Sorted(maps.Keys(registers)) {
		fmt.Fprintf(b, "  [%s] %+v\n", step, registers[step])
	}
	for _, r := range o.Revs() {
		spec, err := o.SpecAt(r.Change)
		fmt.Fprintf(b, "  rev %s %+v spec %v %v\n", o.RevName(r.Change), r, spec, err)
	}
	fmt.Fprintf(b, "  heads %v conflicts %v\n", o.Heads(), o.Conflicts())
}
