package loops

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"starling.dev/starling/api"
)

// TestShare holds the number of pods of the next template against its definition, for
// every percentage and rounding.
func TestShare(t *testing.T) {
	for replicas := range int64(101) {
		for percent := range int64(101) {
			exact := float64(replicas*percent) / 100
			for rounding, want := range map[string]float64{
				api.RoundNearest: math.Floor(exact + 0.5), api.RoundUp: math.Ceil(exact), api.RoundDown: math.Floor(exact),
			} {
				got := share(replicas, percent, rounding)
				if got != int64(want) || got < 0 || got > replicas {
					t.Fatalf("%d%% of %d, %s: %d, want %g", percent, replicas, rounding, got, want)
				}
			}
		}
	}
}

func TestShareExamples(t *testing.T) {
	for _, tt := range []struct {
		replicas, percent int64
		nearest, up, down int64
	}{
		{0, 50, 0, 0, 0},
		{1, 0, 0, 0, 0},
		{1, 1, 0, 1, 0},
		{1, 49, 0, 1, 0},
		{1, 50, 1, 1, 0},
		{3, 10, 0, 1, 0},
		{3, 50, 2, 2, 1},
		{10, 10, 1, 1, 1},
		{10, 15, 2, 2, 1},
		{10, 99, 10, 10, 9},
		{100, 1, 1, 1, 1},
	} {
		got := [3]int64{share(tt.replicas, tt.percent, api.RoundNearest), share(tt.replicas, tt.percent, api.RoundUp), share(tt.replicas, tt.percent, api.RoundDown)}
		if want := [3]int64{tt.nearest, tt.up, tt.down}; got != want {
			t.Errorf("%d%% of %d: %v, want %v (nearest, up, down)", tt.percent, tt.replicas, got, want)
		}
	}
}

// fleet is the pods of a deployment as they really are. A pod that was told to change
// goes on serving for a while, stops, and serves again; the executor sees none of that
// but its end.
type fleet struct {
	t     *rapid.T
	b     bounds
	want  []string
	bad   string // a template that never gets ready
	pods  map[int]*pod
	pause bool
}

type pod struct {
	template string
	up       bool // ready, whatever it runs
	done     bool // runs its template and is ready, as the executor sees it
	leaving  bool
}

func (f *fleet) seen() []slot {
	var slots []slot
	for i, p := range f.pods {
		slots = append(slots, slot{index: i, template: p.template, serving: p.done && !p.leaving, leaving: p.leaving})
	}
	slices.SortFunc(slots, func(a, b slot) int { return a.index - b.index })
	return slots
}

func (f *fleet) up() (n int) {
	for _, p := range f.pods {
		if p.up && !p.leaving {
			n++
		}
	}
	return n
}

func (f *fleet) serving() (n int) {
	for _, p := range f.pods {
		if p.done && !p.leaving {
			n++
		}
	}
	return n
}

// act lets the executor decide and holds every single move against the bounds.
func (f *fleet) act() []move {
	moves := roll(f.seen(), f.want, f.b, f.pause)
	for _, m := range moves {
		p, exists := f.pods[m.slot]
		served := exists && p.done
		switch {
		case m.remove:
			p.leaving = true
		case !exists:
			f.pods[m.slot] = &pod{template: m.template}
			if len(f.pods) > f.b.replicas+f.b.surge {
				f.t.Fatalf("%d pods, and at most %d+%d may be there", len(f.pods), f.b.replicas, f.b.surge)
			}
		default:
			p.template, p.done = m.template, false
		}
		if served && f.serving() < f.b.replicas-f.b.unavailable {
			f.t.Fatalf("%+v leaves %d of %d serving, and at most %d may be out of service", m, f.serving(), f.b.replicas, f.b.unavailable)
		}
	}
	return moves
}

// happen lets one of the things that go on by themselves happen.
func (f *fleet) happen() bool {
	type event struct {
		slot int
		what string
	}
	var due []event
	for i, p := range f.pods {
		switch {
		case p.leaving:
			due = append(due, event{i, "gone"})
		case !p.done && p.up:
			due = append(due, event{i, "down"})
			fallthrough
		case !p.done && p.template != f.bad:
			due = append(due, event{i, "done"})
		}
	}
	if len(due) == 0 {
		return false
	}
	slices.SortFunc(due, func(a, b event) int { return slices.Compare([]int{a.slot, len(a.what)}, []int{b.slot, len(b.what)}) })
	e := due[rapid.IntRange(0, len(due)-1).Draw(f.t, "event")]
	switch p := f.pods[e.slot]; e.what {
	case "gone":
		delete(f.pods, e.slot)
	case "down":
		p.up = false
	case "done":
		if p.template != f.bad {
			p.up, p.done = true, true
		}
	}
	return true
}

// TestRollKeepsItsBounds: in any order of completions, with the goal changed at any
// instant, and one of the templates broken or not.
func TestRollKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &fleet{t: t, pods: map[int]*pod{}, b: drawBounds(t)}
		f.bad = rapid.SampledFrom([]string{"", "B", "C"}).Draw(t, "bad")
		for i := range f.b.replicas {
			f.pods[i] = &pod{template: "A", up: true, done: true}
		}
		f.aim()
		floor := f.b.replicas - f.b.unavailable
		for range rapid.IntRange(0, 120).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				f.aim()
			case 1, 2, 3, 4:
				f.act()
			default:
				f.happen()
			}
			if f.up() < floor {
				t.Fatalf("%d pods are ready, and at least %d should be", f.up(), floor)
			}
		}
		f.settle()
	})
}

func drawBounds(t *rapid.T) bounds {
	b := bounds{
		replicas: rapid.IntRange(0, 12).Draw(t, "replicas"), surge: rapid.IntRange(0, 4).Draw(t, "surge"),
		unavailable: rapid.IntRange(0, 4).Draw(t, "unavailable"),
	}
	if b.surge == 0 {
		b.unavailable = max(b.unavailable, 1)
	}
	return b
}

// aim changes the percentage, the templates, or pauses.
func (f *fleet) aim() {
	names := []string{"A", "B", "C"}
	previous, next := rapid.SampledFrom(names).Draw(f.t, "previous"), rapid.SampledFrom(names).Draw(f.t, "next")
	n := share(int64(f.b.replicas), rapid.Int64Range(0, 100).Draw(f.t, "percent"), api.RoundNearest)
	f.want = nil
	for i := range f.b.replicas {
		if i < int(n) {
			f.want = append(f.want, next)
		} else {
			f.want = append(f.want, previous)
		}
	}
	f.pause = rapid.IntRange(0, 5).Draw(f.t, "pause") == 0
}

// settle: once nobody interferes and no template is broken, the goal is reached.
func (f *fleet) settle() {
	f.pause, f.bad = false, ""
	for range 2000 {
		moved := len(f.act()) > 0
		if !f.happen() && !moved {
			break
		}
	}
	got := f.seen()
	if len(got) != f.b.replicas {
		f.t.Fatalf("at rest there are %d pods, want %d: %+v", len(got), f.b.replicas, got)
	}
	for i, s := range got {
		if s.index != i || s.template != f.want[i] || !s.serving {
			f.t.Fatalf("at rest slot %d is %+v, want template %s", i, s, f.want[i])
		}
	}
}

// TestRollTranscript shows two rolls, one in place only and one with a surge pod.
func TestRollExamples(t *testing.T) {
	serving := func(n int, template string) (slots []slot) {
		for i := range n {
			slots = append(slots, slot{index: i, template: template, serving: true})
		}
		return slots
	}
	for _, tt := range []struct {
		name   string
		slots  []slot
		want   []string
		b      bounds
		paused bool
		moves  string
	}{
		{"at rest", serving(3, "A"), []string{"A", "A", "A"}, bounds{3, 1, 0}, false, "[]"},
		{"the first pods", nil, []string{"A", "A"}, bounds{2, 1, 0}, false, "[{0 A false} {1 A false}]"},
		{"in place within unavailable", serving(3, "A"), []string{"B", "B", "A"}, bounds{3, 0, 1}, false, "[{0 B false}]"},
		{"nothing to spare: a surge pod first", serving(3, "A"), []string{"B", "A", "A"}, bounds{3, 1, 0}, false, "[{3 B false}]"},
		{"the surge pod serves: in place", append(serving(3, "A"), slot{3, "B", true, false}), []string{"B", "A", "A"}, bounds{3, 1, 0}, false, "[{0 B false}]"},
		{"the surge pod has helped", append([]slot{{0, "B", true, false}}, append(serving(3, "A")[1:], slot{3, "B", true, false})...), []string{"B", "A", "A"}, bounds{3, 1, 0}, false, "[{3  true}]"},
		{"aborted before the surge pod served", append(serving(3, "A"), slot{3, "B", false, false}), []string{"A", "A", "A"}, bounds{3, 1, 0}, false, "[{3  true}]"},
		{"aborted with a broken pod: back at once", []slot{{0, "B", false, false}, {1, "A", true, false}}, []string{"A", "A"}, bounds{2, 0, 1}, false, "[{0 A false}]"},
		{"paused: nothing changes, what is missing is made", serving(1, "A"), []string{"B", "B"}, bounds{2, 1, 1}, true, "[{1 B false}]"},
		{"scaled down", serving(3, "A"), []string{"A"}, bounds{1, 1, 0}, false, "[{1  true} {2  true}]"},
		{"one is leaving: its place is not free yet", []slot{{0, "A", false, true}}, []string{"A"}, bounds{1, 0, 1}, false, "[]"},
	} {
		if got := fmt.Sprint(roll(tt.slots, tt.want, tt.b, tt.paused)); got != tt.moves {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.moves)
		}
	}
}
