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

// Nearest returns the candidate with the smallest edit distance to s, or "" if
// none is near enough to be meant.
func Nearest(s string, candidates []string) string {
	best, least := "", len(s)/2+1
	for _, c := range candidates {
		if d := distance(s, c); d < least || (d == least && best != "" && c < best) {
			best, least = c, d
		}
	}
	return best
}

// distance is Levenshtein's edit distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
