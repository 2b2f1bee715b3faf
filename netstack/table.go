package netstack

import (
	"fmt"
	"net/netip"
	"strings"
)

// TableName is the name of our one nftables table, of family inet.
const TableName = "starling"

// Table is our nftables table. It is replaced as a whole in one transaction.
type Table struct {
	Chains []Chain
}

// Chain is a base chain whose policy is accept.
type Chain struct {
	Name string
	Type string // filter | nat
	Hook string // forward | postrouting
	// Priority is the hook's priority, as in "priority 0".
	Priority int32
	Rules    []Rule
}

// Rule matches packets and decides about them. Zero fields match everything.
type Rule struct {
	In, Out             LinkMatch
	Source, Destination PrefixMatch
	IPv4                bool // only IPv4
	Direct              bool // only what goes to where it was sent, not what we send on
	Verdict             Verdict
	Why                 string // a few words, kept as the rule's comment
}

// LinkMatch compares the name of a packet's link; a trailing '*' matches any rest.
type LinkMatch struct {
	Name string
	Not  bool
}

// PrefixMatch compares an address.
type PrefixMatch struct {
	Prefix netip.Prefix
	Not    bool
}

// Verdict is what a rule does.
type Verdict string

// The verdicts.
const (
	Accept     Verdict = "accept"
	Drop       Verdict = "drop"
	Masquerade Verdict = "masquerade"
)

// String prints the rule as nft(8) would.
func (r Rule) String() string {
	var words []string
	if r.IPv4 {
		words = append(words, "meta nfproto ipv4")
	}
	words = appendMatch(words, "iifname", quoted(r.In.Name), r.In.Not)
	words = appendMatch(words, "oifname", quoted(r.Out.Name), r.Out.Not)
	words = appendPrefix(words, "saddr", r.Source)
	words = appendPrefix(words, "daddr", r.Destination)
	if r.Direct {
		words = append(words, "ct status ! dnat")
	}
	return strings.Join(append(words, string(r.Verdict)), " ")
}

func quoted(name string) string {
	if name == "" {
		return ""
	}
	return `"` + name + `"`
}

func appendMatch(words []string, key, value string, not bool) []string {
	switch {
	case value == "":
		return words
	case not:
		return append(words, key+" != "+value)
	}
	return append(words, key+" "+value)
}

func appendPrefix(words []string, key string, m PrefixMatch) []string {
	if !m.Prefix.IsValid() {
		return words
	}
	family := "ip6 "
	if m.Prefix.Addr().Is4() {
		family = "ip "
	}
	return appendMatch(words, family+key, m.Prefix.String(), m.Not)
}

// String prints the chain's first line.
func (c Chain) String() string {
	return fmt.Sprintf("chain %s type %s hook %s priority %d policy accept", c.Name, c.Type, c.Hook, c.Priority)
}

func (t *Table) lines() []string {
	lines := []string{"table inet " + TableName}
	for _, c := range t.Chains {
		lines = append(lines, "  "+c.String())
		for _, r := range c.Rules {
			lines = append(lines, "    "+r.String())
		}
	}
	return lines
}
