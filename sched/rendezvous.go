package sched

import (
	"crypto/sha256"
	"encoding/binary"
)

// Score is the rendezvous (highest random weight) hash of an object and a member,
// after Thaler and Ravishankar, "A Name-Based Mapping Scheme for Rendezvous" (1996).
func Score(object, member string) uint64 {
	h := sha256.New()
	h.Write([]byte(object))
	h.Write([]byte{0})
	h.Write([]byte(member))
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// Executor returns the member with the highest score; ties go to the lesser name.
// When a member leaves, only the objects that it had move.
func Executor(object string, members []string) string {
	best, score := "", uint64(0)
	for _, m := range members {
		s := Score(object, m)
		if best == "" || s > score || (s == score && m < best) {
			best, score = m, s
		}
	}
	return best
}
