package sim

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"
)

// source is one stream of random numbers. Each concern has its own, so that leaving
// one feature out of a seed leaves the others' draws as they were.
type source struct{ *rand.Rand }

func newSource(seed uint64, concern string) source {
	h := fnv.New64a()
	h.Write([]byte(concern)) // never fails
	return source{rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// chance is true with probability p.
func (s source) chance(p float64) bool { return p > 0 && s.Float64() < p }

// between draws evenly from the range; from, when it is empty.
func (s source) between(from, to time.Duration) time.Duration {
	if to <= from {
		return from
	}
	return from + time.Duration(s.Int64N(int64(to-from)))
}

// about draws from the exponential distribution, cut off at ten times the mean.
func (s source) about(mean time.Duration) time.Duration {
	return time.Duration(float64(mean) * math.Min(s.ExpFloat64(), 10))
}

// pick draws one of the list, which is not empty.
func pick[T any](s source, list []T) T { return list[s.IntN(len(list))] }
