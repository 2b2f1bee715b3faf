package loops

import (
	"cmp"
	"slices"

	"starling.dev/starling/api"
)

// share returns how many of the replicas run the next template.
func share(replicas, percent int64, rounding string) int64 {
	hundredths := replicas * percent
	switch rounding {
	case api.RoundUp:
		return (hundredths + 99) / 100
	case api.RoundDown:
		return hundredths / 100
	}
	return (hundredths + 50) / 100
}

// slot is one pod of a deployment as its executor sees it.
type slot struct {
	index    int
	template string // hash of the one that it is to run
	serving  bool   // it runs that one, and is ready
	leaving  bool   // it is being deleted
}

// bounds are what a roll may cost.
type bounds struct {
	replicas, surge, unavailable int
}

// move is one thing to do: remove the slot's pod, or make it run a template, creating
// it if it is not there.
type move struct {
	slot     int
	template string
	remove   bool
}

// roll decides what to do now so that slot i comes to run want[i], for every i below
// the replicas, and nothing else is left.
//
// A pod that was told to change counts as not serving until it is seen to serve again,
// so that whatever order things end in, at most surge pods more exist, and no move
// takes the pods that serve below replicas - unavailable. Pods that don't serve are
// changed and removed freely. What can't be changed within the bounds gets help from a
// surge pod, in a slot beyond the replicas. The moves stand in the order in which they
// were weighed; there are none when there is nothing to do but wait.
func roll(slots []slot, want []string, b bounds, paused bool) []move {
	r := &rolling{bounds: b, total: len(slots), byIndex: map[int]slot{}}
	for _, s := range slots {
		r.byIndex[s.index] = s
		if s.serving && !s.leaving {
			r.serving++
		}
	}
	r.fill(want)
	var held []string
	if !paused {
		held = r.change(want)
	}
	kept := r.shed(slots, held)
	r.help(kept, held)
	return r.moves
}

// rolling is a roll being decided. serving and total are as they will be when the
// moves so far have begun.
type rolling struct {
	bounds
	byIndex        map[int]slot
	total, serving int
	moves          []move
}

// disturb takes one serving pod out of service, if the bounds allow it.
func (r *rolling) disturb(s slot) bool {
	if !s.serving {
		return true
	}
	if r.serving-1 < r.replicas-r.unavailable {
		return false
	}
	r.serving--
	return true
}

func (r *rolling) create(index int, template string) bool {
	if r.total >= r.replicas+r.surge {
		return false
	}
	r.total++
	r.moves = append(r.moves, move{slot: index, template: template})
	return true
}

// fill makes the pods that are missing.
func (r *rolling) fill(want []string) {
	for i, template := range want {
		if _, exists := r.byIndex[i]; !exists {
			r.create(i, template)
		}
	}
}

// change has pods change their template, and returns the templates of those that have
// to wait until others serve.
func (r *rolling) change(want []string) (held []string) {
	for i, template := range want {
		s, exists := r.byIndex[i]
		switch {
		case !exists || s.leaving || s.template == template:
		case r.disturb(s):
			r.moves = append(r.moves, move{slot: i, template: template})
		default:
			held = append(held, template)
		}
	}
	return held
}

// shed removes pods beyond the replicas, and returns how many are kept as help for
// those that wait. Of these, one that doesn't serve runs what it is to help with.
func (r *rolling) shed(slots []slot, held []string) (kept int) {
	beyond := slices.DeleteFunc(slices.Clone(slots), func(s slot) bool { return s.index < r.replicas || s.leaving })
	slices.SortFunc(beyond, func(a, b slot) int {
		if a.serving != b.serving {
			return cmp.Compare(rank(a), rank(b))
		}
		return cmp.Compare(a.index, b.index)
	})
	for _, s := range beyond {
		switch {
		case kept < min(r.surge, len(held)):
			kept++
			if !s.serving && s.template != held[0] {
				r.moves = append(r.moves, move{slot: s.index, template: held[0]})
			}
		case r.disturb(s):
			r.moves = append(r.moves, move{slot: s.index, remove: true})
		}
	}
	return kept
}

// rank puts pods that serve first: they are of most help.
func rank(s slot) int {
	if s.serving {
		return 0
	}
	return 1
}

// help makes surge pods for those that have to wait.
func (r *rolling) help(kept int, held []string) {
	for index := r.replicas; kept < min(r.surge, len(held)); index++ {
		if _, taken := r.byIndex[index]; taken {
			continue
		}
		if !r.create(index, held[0]) {
			return
		}
		kept++
	}
}
