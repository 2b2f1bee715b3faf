package identity

import (
	"cmp"
	"slices"
)

// span is the half-open range [from, to) of positions in the log.
type span struct{ from, to int }

// past is a set of positions: a record's ancestors. Positions are handed out in the
// order of attachment, in which most records have seen nearly all that came before,
// so a few spans hold what would be megabytes of bits. Invariant: spans ascend and
// neither touch nor overlap. A past is never changed once made.
type past []span

func (p past) has(i int) bool {
	at, _ := slices.BinarySearchFunc(p, i, func(s span, i int) int { return cmp.Compare(s.to, i+1) })
	return at < len(p) && p[at].from <= i
}

// union merges pasts and single positions.
func union(pasts []past, points []int) past {
	var all []span
	for _, p := range pasts {
		all = append(all, p...)
	}
	for _, i := range points {
		all = append(all, span{i, i + 1})
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	out := past{}
	for _, s := range all {
		if n := len(out); n > 0 && s.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
		} else {
			out = append(out, s)
		}
	}
	return out
}
