package lifecycle

import "math/bits"

// maxNodes bounds the steps and targets of one lifecycle, so that a set of them is one
// word. A step with feedback counts twice.
const maxNodes = 64

// set is a set of nodes by their place in the order of the graph.
type set uint64

func (s set) has(i int) bool { return s&(1<<i) != 0 }

func (s *set) add(i int) { *s |= 1 << i }

// first returns the least element of a set that is not empty.
func (s set) first() int { return bits.TrailingZeros64(uint64(s)) }

// last returns the greatest element of a set that is not empty.
func (s set) last() int { return 63 - bits.LeadingZeros64(uint64(s)) }

// size returns how many elements there are.
func (s set) size() int { return bits.OnesCount64(uint64(s)) }

// all ranges over the elements from the least to the greatest.
func (s set) all(yield func(int) bool) {
	for ; s != 0; s &= s - 1 {
		if !yield(s.first()) {
			return
		}
	}
}
