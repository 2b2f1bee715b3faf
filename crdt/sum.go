package crdt

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// sum is a hash of a set: the sum of its members' SHA-256 modulo 2^256 (Bellare and
// Micciancio, "A New Paradigm for Collision-Free Hashing", 1997). Members come and
// go at constant cost, in any order. It tells whether two peers differ; what they
// then exchange is checked by itself.
type sum [4]uint64

func (s *sum) add(id ID) {
	var carry uint64
	for i := range s {
		s[i], carry = bits.Add64(s[i], word(id, i), carry)
	}
}

func (s *sum) remove(id ID) {
	var borrow uint64
	for i := range s {
		s[i], borrow = bits.Sub64(s[i], word(id, i), borrow)
	}
}

func word(id ID, i int) uint64 { return binary.LittleEndian.Uint64(id[8*i:]) }

// id is the hash of the sum and of how many members it has.
func (s *sum) id(members int) ID {
	b := make([]byte, 0, 40)
	for _, w := range s {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return sha256.Sum256(binary.LittleEndian.AppendUint64(b, uint64(members)))
}
