package linux

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack"
)

// packet is what is known of a forwarded packet when rules of others are judged: the
// first one of a connection of a pod with the outside.
type packet struct {
	in, out string
	family  byte // NFPROTO_IPV4 | NFPROTO_IPV6
}

// fate is what becomes of a packet.
type fate int

const (
	unsettled fate = iota
	accepted
	dropped
)

// ruleset is a copy of one nftables table of somebody else.
type ruleset struct {
	table  *nftables.Table
	chains map[string]*nftables.Chain
	rules  map[string][]*nftables.Rule
}

// checkFirewall finds chains of others that drop what the machine forwards for its
// pods, and names the rule or policy. (An accept in our table could not help: a packet
// must pass every table.)
func (n *Network) checkFirewall(uplinks []string) ([]Finding, error) {
	conn, err := n.host.nft()
	if err != nil {
		return nil, err
	}
	sets, err := foreignTables(conn)
	if err != nil {
		return nil, err
	}
	uplink := "eth0"
	if len(uplinks) > 0 {
		uplink = uplinks[0]
	}
	pod := netstack.PodLinkPrefix + "000000000000"
	var found []Finding
	for _, set := range sets {
		for _, family := range families(set.table.Family) {
			for _, p := range []packet{{pod, uplink, family}, {uplink, pod, family}} {
				if f, bad := set.judge(p); bad && !slices.Contains(found, f) {
					found = append(found, f)
				}
			}
		}
	}
	return found, nil
}

// families returns the protocols that a table sees; nil for those that are not routed.
func families(f nftables.TableFamily) []byte {
	switch f {
	case nftables.TableFamilyIPv4:
		return []byte{unix.NFPROTO_IPV4}
	case nftables.TableFamilyIPv6:
		return []byte{unix.NFPROTO_IPV6}
	case nftables.TableFamilyINet:
		return []byte{unix.NFPROTO_IPV6, unix.NFPROTO_IPV4}
	}
	return nil
}

func foreignTables(conn *nftables.Conn) ([]ruleset, error) {
	chains, err := conn.ListChains()
	if err != nil {
		return nil, fmt.Errorf("list nftables chains: %w", err)
	}
	var sets []ruleset
	for _, c := range chains {
		if families(c.Table.Family) == nil || isOurs(c.Table.Name) {
			continue
		}
		i := slices.IndexFunc(sets, func(s ruleset) bool {
			return s.table.Name == c.Table.Name && s.table.Family == c.Table.Family
		})
		if i < 0 {
			sets = append(sets, ruleset{c.Table, map[string]*nftables.Chain{}, map[string][]*nftables.Rule{}})
			i = len(sets) - 1
		}
		rules, err := conn.GetRules(c.Table, c)
		if err != nil {
			return nil, fmt.Errorf("list the rules of chain %s: %w", c.Name, err)
		}
		sets[i].chains[c.Name], sets[i].rules[c.Name] = c, rules
	}
	return sets, nil
}

// isOurs reports whether a table is one of ours: "starling" and what belongs to it.
func isOurs(table string) bool {
	return table == netstack.TableName || strings.HasPrefix(table, netstack.TableName+"-")
}

// judge follows a packet through the table's chains at the forward hook.
func (s ruleset) judge(p packet) (Finding, bool) {
	for _, c := range s.chains {
		if c.Hooknum == nil || *c.Hooknum != *nftables.ChainHookForward || c.Type != nftables.ChainTypeFilter {
			continue
		}
		result, by := s.follow(c.Name, p, 0)
		if result == unsettled && c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop {
			result, by = dropped, fmt.Sprintf("policy drop of chain %s", c.Name)
		}
		if result == dropped {
			return s.finding(c, by), true
		}
	}
	return Finding{}, false
}

// maxJumps is the depth of jumps that nftables itself allows.
const maxJumps = 16

// follow returns what the rules of a chain certainly do with the packet. A rule that
// also looks at something that is not known here is passed over: most packets of pods
// don't match it.
func (s ruleset) follow(chain string, p packet, depth int) (fate, string) {
	if depth > maxJumps {
		return unsettled, ""
	}
	for i, rule := range s.rules[chain] {
		verdict, certain := p.match(rule.Exprs)
		if !certain || verdict == nil {
			continue
		}
		switch verdict.Kind {
		case expr.VerdictAccept:
			return accepted, ""
		case expr.VerdictDrop:
			return dropped, fmt.Sprintf("rule %d (handle %d) of chain %s", i+1, rule.Handle, chain)
		case expr.VerdictReturn:
			return unsettled, ""
		case expr.VerdictJump, expr.VerdictGoto:
			result, by := s.follow(verdict.Chain, p, depth+1)
			if result != unsettled || verdict.Kind == expr.VerdictGoto {
				return result, by
			}
		}
	}
	return unsettled, ""
}

// match runs a rule on the packet. certain is false if the rule does not match or may
// not match; verdict is nil if it decides nothing.
func (p packet) match(exprs []expr.Any) (verdict *expr.Verdict, certain bool) {
	var loaded []byte // the known value in the register that is compared next
	for _, e := range exprs {
		switch e := e.(type) {
		case *expr.Meta:
			loaded = p.load(e.Key)
			if loaded == nil {
				return nil, false
			}
		case *expr.Cmp:
			if loaded == nil || !compares(e, loaded) {
				return nil, false
			}
		case *expr.Counter, *expr.Log:
		case *expr.Verdict:
			return e, true
		case *expr.Reject:
			return &expr.Verdict{Kind: expr.VerdictDrop}, true
		case *expr.Target:
			if e.Name == "REJECT" {
				return &expr.Verdict{Kind: expr.VerdictDrop}, true
			}
			return nil, false
		default:
			return nil, false
		}
	}
	return nil, true
}

// load returns the packet's value of a meta key; nil if it is not known.
func (p packet) load(key expr.MetaKey) []byte {
	name := func(s string) []byte { return append([]byte(s), make([]byte, unix.IFNAMSIZ-len(s))...) }
	switch key {
	case expr.MetaKeyIIFNAME:
		return name(p.in)
	case expr.MetaKeyOIFNAME:
		return name(p.out)
	case expr.MetaKeyNFPROTO:
		return []byte{p.family}
	}
	return nil
}

func compares(c *expr.Cmp, value []byte) bool {
	equal := bytes.HasPrefix(value, c.Data)
	return (c.Op == expr.CmpOpEq && equal) || (c.Op == expr.CmpOpNeq && !equal)
}

func (s ruleset) finding(base *nftables.Chain, by string) Finding {
	family := map[nftables.TableFamily]string{
		nftables.TableFamilyIPv4: "ip", nftables.TableFamilyIPv6: "ip6", nftables.TableFamilyINet: "inet",
	}[s.table.Family]
	return Finding{
		Check:   "firewall",
		Problem: fmt.Sprintf("%s in table %s %s drops what this machine forwards for its pods", by, family, s.table.Name),
		Remedy:  "run: " + s.remedy(family, base.Name),
	}
}

// remedy is the command that fits whoever made the table.
func (s ruleset) remedy(family, chain string) string {
	const pods = netstack.PodLinkPrefix
	_, docker := s.chains["DOCKER-USER"]
	tool := "iptables"
	if family == "ip6" {
		tool = "ip6tables"
	}
	accept := func(chain string) string {
		return fmt.Sprintf("%s -I %s -i %s+ -j ACCEPT && %s -I %s -o %s+ -j ACCEPT", tool, chain, pods, tool, chain, pods)
	}
	switch {
	case docker:
		return accept("DOCKER-USER")
	case s.table.Name == "firewalld":
		return fmt.Sprintf("firewall-cmd --permanent --zone=trusted --add-interface=%s+ && firewall-cmd --reload", pods)
	case s.table.Name == "filter" && chain == "FORWARD":
		return accept(chain)
	}
	rule := func(match string) string {
		return fmt.Sprintf("nft insert rule %s %s %s %s '\"%s*\"' accept", family, s.table.Name, chain, match, pods)
	}
	return strings.Join([]string{rule("iifname"), rule("oifname")}, " && ")
}
