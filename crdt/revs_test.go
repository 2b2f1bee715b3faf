package crdt

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// forked is a history in which two people edit rev 1 at once and one of them
// merges: revs 1, 2 and 2, 3.
func forked(t *testing.T) (*scene, *Object) {
	s := newScene(t)
	s.create("c", 10<<16, "user:alice", set("spec.a", "1"))
	s.add("x", 20<<16, "user:alice", "c", "c", set("spec.a", "2"))
	s.add("y", 30<<16, "user:bob", "c", "c", set("spec.b", "2"))
	s.add("m", 40<<16, "user:bob", "c", "x y", unset("spec.a"))
	o, _ := s.fold(rules()).Object(web)
	return s, o
}

func TestSpecAtIsExact(t *testing.T) {
	s, o := forked(t)
	for at, want := range map[string]map[string]string{
		"c":   {"spec.a": "1"},
		"x":   {"spec.a": "2"},
		"y":   {"spec.a": "1", "spec.b": "2"},
		"x y": {"spec.a": "2", "spec.b": "2"},
		"m":   {"spec.b": "2"},
	} {
		var ids []ID
		for name := range strings.FieldsSeq(at) {
			ids = append(ids, s.named[name].id)
		}
		got, err := o.SpecAt(ids...)
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("at %s: %v, %v; want %v", at, got, err, want)
		}
	}
	if _, err := o.SpecAt(idOf("nothing")); err == nil {
		t.Error("an unknown rev has a spec")
	}
}

func TestHeadsAtATime(t *testing.T) {
	s, o := forked(t)
	for stamp, want := range map[uint64]string{5: "", 10: "c", 25: "x", 35: "x y", 99: "m"} {
		var got []string
		for _, id := range o.HeadsAt(stamp << 16) {
			got = append(got, s.name(id))
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("at %d the heads are %v, want %s", stamp, got, want)
		}
	}
}

func TestRevNames(t *testing.T) {
	s, o := forked(t)
	x, y := o.RevName(s.named["x"].id), o.RevName(s.named["y"].id)
	if o.RevName(s.named["c"].id) != "1" || o.Current() != "3" {
		t.Errorf("unambiguous revs are called %s and %s", o.RevName(s.named["c"].id), o.Current())
	}
	if !strings.HasPrefix(x, "2.") || len(x) < 6 || x == y {
		t.Errorf("ambiguous revs are called %s and %s", x, y)
	}
	for name, want := range map[string][]string{"1": {"c"}, "3": {"m"}, x: {"x"}, strings.ToUpper(y): {"y"}, x + "+" + y: {"x", "y"}} {
		ids, err := o.ParseRev(name)
		var got []string
		for _, id := range ids {
			got = append(got, s.name(id))
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s resolves to %v, %v; want %v", name, got, err, want)
		}
	}
}

func TestBadRevNamesSayWhatToDo(t *testing.T) {
	s, o := forked(t)
	both := o.RevName(s.named["x"].id)
	for name, part := range map[string]string{
		"2": both, "9": "there is no rev 9; the latest is 3", "latest": "write a number", "": "write a number", "2.": "write a number", "2.zz": "there is no rev 2.zz", "1+": "write a number",
	} {
		if _, err := o.ParseRev(name); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v; want it to say %q", name, err, part)
		}
	}
}

func TestConcurrentHeadsNameTheMerge(t *testing.T) {
	s := newScene(t)
	s.create("c", 10, "user:alice")
	s.add("x", 20, "user:alice", "c", "c", set("spec.a", "2"))
	s.add("y", 30, "user:bob", "c", "c", set("spec.b", "2"))
	o, _ := s.fold(rules()).Object(web)
	ids, err := o.ParseRev(o.Current())
	if err != nil || !slices.Equal(ids, o.Heads()) {
		t.Errorf("%q resolves to %v, %v; want the heads %v", o.Current(), ids, err, o.Heads())
	}
	s.add("d", 40, "user:bob", "c", "x y", Op{Kind: OpDelete})
	o, _ = s.fold(rules()).Object(web)
	if ids, err := o.ParseRev(o.Current()); err != nil || len(ids) != 2 {
		t.Errorf("a deleted object is at %q, which resolves to %v, %v", o.Current(), ids, err)
	}
}

// The latest revs by some authors are those that none of them built on, whoever else did.
func TestHeadsByAuthors(t *testing.T) {
	s := newScene(t)
	s.create("c", 10, "user:alice")
	s.add("x", 20, "user:alice", "c", "c", set("spec.a", "2"))
	s.add("y", 30, "user:bob", "c", "c", set("spec.b", "2"))
	s.add("m", 40, "user:carol", "c", "x y", set("spec.c", "2"))
	o, _ := s.fold(rules()).Object(web)
	for authors, want := range map[string][]string{
		"user:alice": {"x"}, "user:bob": {"y"}, "user:carol": {"m"}, "user:alice user:bob": {"x", "y"}, "user:bob user:carol": {"m"}, "user:dave": nil,
	} {
		var got []string
		for _, id := range o.HeadsBy(func(author string) bool { return slices.Contains(strings.Fields(authors), author) }) {
			got = append(got, s.name(id))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("the heads by %s are %v, want %v", authors, got, want)
		}
	}
}
