package crdt

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// Span is the sequence numbers From..To, both included.
type Span struct{ From, To uint64 }

// Seqs is a set of sequence numbers: its maximal spans, in order. Invariant: between two
// spans at least one number is missing, so that one set has one form. None
// but Push changes it.
type Seqs []Span

// maxSpans bounds a set that was read.
const maxSpans = 1 << 16

// Has reports whether the set holds a number.
func (s Seqs) Has(seq uint64) bool {
	_, found := slices.BinarySearchFunc(s, seq, func(p Span, seq uint64) int {
		switch {
		case p.To < seq:
			return -1
		case p.From > seq:
			return 1
		}
		return 0
	})
	return found
}

// Len is how many numbers the set holds.
func (s Seqs) Len() (n uint64) {
	for _, p := range s {
		n += p.To - p.From + 1
	}
	return n
}

// With returns the set and one span more.
func (s Seqs) With(from, to uint64) Seqs { return s.Union(Seqs{{from, to}}) }

// Push adds a number that is greater than all in the set.
func (s *Seqs) Push(seq uint64) {
	if n := len(*s); n > 0 && (*s)[n-1].To+1 == seq {
		(*s)[n-1].To = seq
		return
	}
	*s = append(*s, Span{seq, seq})
}

// Union returns what is in either set.
func (s Seqs) Union(o Seqs) Seqs {
	all := slices.Concat(s, o)
	slices.SortFunc(all, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	var out Seqs
	for _, p := range all {
		if n := len(out); n > 0 && p.From <= out[n-1].To+1 {
			out[n-1].To = max(out[n-1].To, p.To)
			continue
		}
		out = append(out, p)
	}
	return out
}

// Minus returns what is in the set and not in the other.
func (s Seqs) Minus(o Seqs) Seqs {
	var out Seqs
	for _, p := range s {
		for ; len(o) > 0 && o[0].To < p.From; o = o[1:] {
		}
		rest := o
		for ; len(rest) > 0 && rest[0].From <= p.To; rest = rest[1:] {
			if rest[0].From > p.From {
				out = append(out, Span{p.From, rest[0].From - 1})
			}
			p.From = rest[0].To + 1
		}
		if p.From <= p.To {
			out = append(out, p)
		}
	}
	return out
}

// Within returns what of the set lies between two numbers, both included.
func (s Seqs) Within(from, to uint64) Seqs {
	var out Seqs
	for _, p := range s {
		if p.To >= from && p.From <= to {
			out = append(out, Span{max(p.From, from), min(p.To, to)})
		}
	}
	return out
}

// AppendTo appends the set's encoding: the number of spans, then for each how many numbers
// are missing before it and how many it holds, both less one but for the first gap.
func (s Seqs) AppendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	next := uint64(1)
	for _, p := range s {
		b = binary.AppendUvarint(b, p.From-next)
		b = binary.AppendUvarint(b, p.To-p.From)
		next = p.To + 2
	}
	return b
}

func (r *reader) seqs() Seqs {
	n := int(r.uvarint(maxSpans, "spans"))
	if 2*n > len(r.rest) {
		r.fail("spans", "are cut short")
		return nil
	}
	s := make(Seqs, 0, n)
	next := uint64(1)
	for range n {
		gap, more := r.uvarint(maxSeq, "gap"), r.uvarint(maxSeq, "span")
		if gap > maxSeq-min(next, maxSeq) || more > maxSeq-next-gap {
			r.fail("a span", "is beyond its limit")
		}
		if r.err != nil {
			return nil
		}
		s = append(s, Span{next + gap, next + gap + more})
		next += gap + more + 2
	}
	return s
}

// DecodeSeqs reads what [Seqs.AppendTo] wrote.
func DecodeSeqs(b []byte) (Seqs, error) {
	r := &reader{rest: string(b)}
	s := r.seqs()
	if err := r.end("set of sequence numbers"); err != nil {
		return nil, err
	}
	return s, nil
}
