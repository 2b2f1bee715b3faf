package services

import (
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack/linux/nft"
)

// read lists the table. It is whole if the base chains, the classes, their rules and the
// sets are as they should be; else there is nothing to build on.
func (t *Table) read() (have *content, whole bool, err error) {
	conn, err := t.open()
	if err != nil {
		return nil, false, err
	}
	tables, err := conn.ListTablesOfFamily(ourTable().Family)
	if err != nil {
		return nil, false, fmt.Errorf("list nftables tables: %w", err)
	}
	there := false
	for _, have := range tables {
		there = there || have.Name == TableName
	}
	if !there {
		return nil, false, nil
	}
	have = newContent()
	rules, err := t.kernel().Comments()
	if err != nil {
		return nil, false, err
	}
	for len(rules[numberChain(have.numbers)]) > 0 {
		have.numbers++
	}
	for _, why := range rules[classesChain] {
		if c, ok := readClass(why); ok {
			have.classes = append(have.classes, c)
		}
	}
	if err := t.readSets(have); err != nil {
		return nil, false, err
	}
	return have, t.isWhole(have, rules), nil
}

// isWhole compares the rules with those that there should be.
func (t *Table) isWhole(have *content, rules map[string][]string) bool {
	want := map[string][]string{}
	for _, f := range fixed(t.cfg) {
		want[f.chain.Name] = append(want[f.chain.Name], f.why)
	}
	for _, c := range have.classes {
		want[classesChain] = append(want[classesChain], c.why())
		want[c.chain()] = []string{c.why()}
		if c.size > have.numbers {
			return false
		}
	}
	for n := range have.numbers {
		want[numberChain(n)] = []string{numberWhy(n)}
	}
	for name, marks := range want {
		if !slices.Equal(rules[name], marks) {
			return false
		}
	}
	return len(rules) == len(want)
}

func (t *Table) readSets(have *content) error {
	for _, c := range have.classes {
		err := t.kernel().Elements(classSet(c).Name, func(e nft.Element) {
			if w, ok := readWhere(e.Key); ok {
				have.members[w] = append(have.members[w], c)
			}
		})
		if err != nil {
			return err
		}
	}
	for n := range have.numbers {
		err := t.kernel().Elements(endpointsMap(n).Name, func(e nft.Element) {
			if w, to, ok := readEndpoint(e.Key, e.Value); ok {
				have.endpoints[slot{w, n}] = to
			}
		})
		if err != nil {
			return err
		}
	}
	err := t.kernel().Elements(externalSet().Name, func(e nft.Element) {
		if a, ok := netip.AddrFromSlice(e.Key[:min(addressBytes, len(e.Key))]); ok {
			have.external[a] = struct{}{}
		}
	})
	if err != nil {
		return err
	}
	return t.kernel().Elements(hairpinSet().Name, func(e nft.Element) {
		if a, ok := netip.AddrFromSlice(e.Key[:min(addressBytes, len(e.Key))]); ok {
			have.local[a] = struct{}{}
		}
	})
}

func (t *Table) kernel() nft.Table {
	return nft.Table{Namespace: t.fd, Family: unix.NFPROTO_IPV6, Name: TableName}
}
