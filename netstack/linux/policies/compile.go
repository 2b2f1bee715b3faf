package policies

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack/linux/nft"
	"starling.dev/starling/netstack/policy"
)

func ourTable() *nftables.Table {
	return &nftables.Table{Name: TableName, Family: nftables.TableFamilyIPv6}
}

// compiled is a plan in the kernel's words, as it is put together.
type compiled struct{ nft.Content }

// compile puts a plan into the kernel's words. Chains that others jump to come first.
func compile(cfg Config, p policy.Plan, hash string) *compiled {
	c := &compiled{}
	if len(p.Beyond) > 0 {
		c.addSet(beyondSet, nftables.TypeIP6Addr, addressElements(p.Beyond))
	}
	for _, n := range p.Namespaces {
		c.addNamespace(cfg, n, len(p.Beyond) > 0)
	}
	c.addForward(p, hash)
	return c
}

func (c *compiled) addSet(name string, key nftables.SetDatatype, elements []nftables.SetElement) {
	c.Sets = append(c.Sets, nft.Set{Set: &nftables.Set{Table: ourTable(), Name: name, KeyType: key}, Elements: elements})
}

func (c *compiled) addRule(chain, comment string, parts ...[]expr.Any) {
	c.Rules = append(c.Rules, nft.Rule{Chain: chain, Comment: comment, Exprs: slices.Concat(parts...)})
}

func chainOf(namespace string) string { return "ns/" + namespace }

// addNamespace makes a namespace's chain. It returns for what is allowed and for what is
// none of its business, and refuses the rest.
func (c *compiled) addNamespace(cfg Config, n policy.Namespace, beyond bool) {
	chain := chainOf(n.Name)
	c.Chains = append(c.Chains, &nftables.Chain{Name: chain, Table: ourTable()})
	back := verdict(expr.VerdictReturn, "")
	c.addRule(chain, "from outside of the cluster", outside(cfg.Cluster, sourceAt, beyond), back)
	c.addRule(chain, "to outside of the cluster", outside(cfg.Cluster, destinationAt, beyond), back)
	for _, r := range n.Rules {
		suffix := n.Name + "/" + r.Name
		c.addSet("from/"+suffix, nftables.TypeIP6Addr, addressElements(r.From))
		c.addSet("to/"+suffix, nftables.TypeIP6Addr, addressElements(r.To))
		var ports []expr.Any
		if len(r.Ports) > 0 {
			c.addSet("ports/"+suffix, portType(), portElements(r.Ports))
			ports = portIn("ports/" + suffix)
		}
		c.addRule(chain, "Allow "+suffix, addressIn(sourceAt, "from/"+suffix), addressIn(destinationAt, "to/"+suffix), ports, back)
	}
	c.addRule(chain, "TCP that no Allow names", tcp(), []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}})
	c.addRule(chain, "whatever else no Allow names", []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: prohibited}})
}

// prohibited is code 1 of ICMPv6's destination unreachable (RFC 4443): administratively
// prohibited.
const prohibited = 1

// addForward makes the base chain, which asks the namespaces of both ends. It stands
// before the other chains of the machine, and never ends their say.
func (c *compiled) addForward(p policy.Plan, hash string) {
	var pods, self []nftables.SetElement
	for _, g := range p.Pods {
		a := g.Address.AsSlice()
		jump := &expr.Verdict{Kind: expr.VerdictJump, Chain: chainOf(g.Namespace)}
		pods = append(pods, nftables.SetElement{Key: a, VerdictData: jump})
		self = append(self, nftables.SetElement{Key: append(slices.Clone(a), a...)})
	}
	c.Sets = append(c.Sets, nft.Set{
		Set:      &nftables.Set{Table: ourTable(), Name: "pods", IsMap: true, KeyType: nftables.TypeIP6Addr, DataType: nftables.TypeVerdict},
		Elements: pods,
	})
	c.addSet("self", nftables.MustConcatSetType(nftables.TypeIP6Addr, nftables.TypeIP6Addr), self)
	c.Chains = append(c.Chains, &nftables.Chain{
		Name: "forward", Table: ourTable(), Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityRef(-10),
	})
	accept := verdict(expr.VerdictAccept, "")
	c.addRule("forward", "open connections go on (plan "+hash+")", open(), accept)
	c.addRule("forward", "what a pod sends to itself", addressesIn("self"), accept)
	c.addRule("forward", "the namespace of the sender", chainFor(sourceAt))
	c.addRule("forward", "the namespace of the receiver", chainFor(destinationAt))
}

// Offsets in the IPv6 header, and of the destination port in TCP's and UDP's.
const (
	sourceAt, destinationAt = 8, 24
	portAt                  = 2
	addressBytes            = 16
)

// Registers: the first and the second hold 16 bytes each, the half registers four.
const (
	first, second  = 1, 2
	half, nextHalf = 8, 9
)

func load(register, offset uint32) expr.Any {
	return &expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: addressBytes}
}

func addressIn(offset uint32, set string) []expr.Any {
	return []expr.Any{load(first, offset), &expr.Lookup{SourceRegister: first, SetName: set}}
}

func addressesIn(set string) []expr.Any {
	return []expr.Any{load(first, sourceAt), load(second, destinationAt), &expr.Lookup{SourceRegister: first, SetName: set}}
}

func chainFor(offset uint32) []expr.Any {
	return []expr.Any{load(first, offset), &expr.Lookup{SourceRegister: first, IsDestRegSet: true, SetName: "pods"}}
}

// beyondSet holds pods whose addresses are not of the cluster's prefix.
const beyondSet = "beyond"

func outside(p netip.Prefix, offset uint32, beyond bool) []expr.Any {
	size := uint32(p.Bits() / 8)
	exprs := []expr.Any{
		&expr.Payload{DestRegister: first, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: first, Data: p.Masked().Addr().AsSlice()[:size]},
	}
	if beyond {
		exprs = append(exprs, load(first, offset), &expr.Lookup{SourceRegister: first, SetName: beyondSet, Invert: true})
	}
	return exprs
}

func portIn(set string) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: half},
		&expr.Payload{DestRegister: nextHalf, Base: expr.PayloadBaseTransportHeader, Offset: portAt, Len: 2},
		&expr.Lookup{SourceRegister: half, SetName: set},
	}
}

func tcp() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: first},
		&expr.Cmp{Op: expr.CmpOpEq, Register: first, Data: []byte{unix.IPPROTO_TCP}},
	}
}

// open matches connections that were let through, and what belongs to them.
func open() []expr.Any {
	states := binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED)
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: first},
		&expr.Bitwise{SourceRegister: first, DestRegister: first, Len: 4, Mask: states, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: first, Data: make([]byte, 4)},
	}
}

func verdict(kind expr.VerdictKind, chain string) []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: kind, Chain: chain}}
}

func portType() nftables.SetDatatype {
	return nftables.MustConcatSetType(nftables.TypeInetProto, nftables.TypeInetService)
}

func addressElements(list []netip.Addr) []nftables.SetElement {
	elements := make([]nftables.SetElement, len(list))
	for i, a := range list {
		elements[i] = nftables.SetElement{Key: a.AsSlice()}
	}
	return elements
}

func portElements(list []policy.Port) []nftables.SetElement {
	elements := make([]nftables.SetElement, len(list))
	for i, p := range list {
		key := make([]byte, 8)
		key[0] = unix.IPPROTO_TCP
		if p.Protocol == "udp" {
			key[0] = unix.IPPROTO_UDP
		}
		binary.BigEndian.PutUint16(key[4:], p.Port)
		elements[i] = nftables.SetElement{Key: key}
	}
	return elements
}
