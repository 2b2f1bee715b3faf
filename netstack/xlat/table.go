package xlat

import (
	"cmp"
	"math/bits"
	"slices"
)

// Explicit address mappings (RFC 7757, section 3): the longest matching prefix gives the
// new prefix, and the bits behind it are carried over. When the IPv6 suffix is the longer
// one, the bits that follow are zero, and are ignored on the way back.

// mapping is one entry of the table, in machine form.
type mapping struct {
	net4         addr4
	net6         addr6
	bits4, bits6 int
}

// to6 maps a, which lies in the entry's IPv4 prefix.
func (m *mapping) to6(a addr4) addr6 {
	suffix := uint64(a) & (1<<(32-m.bits4) - 1)
	return shift(suffix, 128-m.bits6-(32-m.bits4)).or(m.net6)
}

// to4 maps a, which lies in the entry's IPv6 prefix.
func (m *mapping) to4(a addr6) addr4 {
	width := 32 - m.bits4
	right := 128 - m.bits6 - width
	v := a.lo >> right
	if right >= 64 {
		v = a.hi >> (right - 64)
	} else if right > 0 {
		v |= a.hi << (64 - right)
	}
	return m.net4 | addr4(v&(1<<width-1))
}

// shift returns v << n in 128 bits, for 0 <= n < 128.
func shift(v uint64, n int) addr6 {
	if n >= 64 {
		return addr6{hi: v << (n - 64)}
	}
	return addr6{hi: v >> (64 - n), lo: v << n}
}

func (a addr6) or(b addr6) addr6 { return addr6{a.hi | b.hi, a.lo | b.lo} }

// table holds the mappings, grouped by prefix length, longest first. A lookup costs one
// map access per distinct length, whatever the number of entries.
//
// Most addresses are under no mapping at all, so each family also has a hull: the
// longest prefix that all mappings share, which settles these with one comparison.
type table struct {
	by4       []group[addr4]
	by6       []group[addr6]
	hull4     addr4
	hull4mask addr4
	hull6     addr6
	hull6mask addr6
}

type group[A comparable] struct {
	bits int
	mask A
	m    map[A]*mapping
}

func newTable(entries []Mapping) table {
	var t table
	for i, e := range entries {
		m := &mapping{
			net4: toAddr4(e.IPv4.Masked().Addr()), bits4: e.IPv4.Bits(),
			net6: toAddr6(e.IPv6.Masked().Addr()), bits6: e.IPv6.Bits(),
		}
		mask4 := addr4(^uint64(0) << (32 - m.bits4))
		t.by4 = insert(t.by4, m.bits4, mask4, m.net4, m)
		t.by6 = insert(t.by6, m.bits6, mask6(m.bits6), m.net6, m)
		if i == 0 {
			t.hull4, t.hull4mask, t.hull6, t.hull6mask = m.net4, mask4, m.net6, mask6(m.bits6)
			continue
		}
		t.widen(m, mask4)
	}
	return t
}

// widen makes the hulls cover m too.
func (t *table) widen(m *mapping, mask4 addr4) {
	t.hull4mask &= mask4 & ^addr4(uint64(1)<<bits.Len32(uint32(t.hull4^m.net4))-1)
	t.hull4 &= t.hull4mask
	differ := addr6{t.hull6.hi ^ m.net6.hi, t.hull6.lo ^ m.net6.lo}
	same := bits.LeadingZeros64(differ.hi)
	if same == 64 {
		same += bits.LeadingZeros64(differ.lo)
	}
	t.hull6mask = t.hull6mask.and(mask6(m.bits6)).and(mask6(same))
	t.hull6 = t.hull6.and(t.hull6mask)
}

func insert[A comparable](groups []group[A], bits int, mask, key A, m *mapping) []group[A] {
	i, found := slices.BinarySearchFunc(groups, bits, func(g group[A], bits int) int {
		return cmp.Compare(bits, g.bits) // descending
	})
	if !found {
		groups = slices.Insert(groups, i, group[A]{bits, mask, map[A]*mapping{}})
	}
	groups[i].m[key] = m
	return groups
}

func (t *table) to6(a addr4) (addr6, bool) {
	if a&t.hull4mask != t.hull4 {
		return addr6{}, false
	}
	for i := range t.by4 {
		if m := t.by4[i].m[a&t.by4[i].mask]; m != nil {
			return m.to6(a), true
		}
	}
	return addr6{}, false
}

func (t *table) has4(a addr4) bool {
	_, ok := t.to6(a)
	return ok
}

func (t *table) to4(a addr6) (addr4, bool) {
	if a.and(t.hull6mask) != t.hull6 {
		return 0, false
	}
	for i := range t.by6 {
		if m := t.by6[i].m[a.and(t.by6[i].mask)]; m != nil {
			return m.to4(a), true
		}
	}
	return 0, false
}
