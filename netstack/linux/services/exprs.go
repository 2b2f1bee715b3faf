package services

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack"
)

// Registers: the first holds 16 bytes, those behind it four each.
const (
	first  = 1
	fifth  = 12 // NFT_REG32_04, right behind the first 16 bytes
	sixth  = 13
	second = 2 // the same place as fifth, as 16 bytes
)

// Offsets in the IPv6 header, and of the destination port in TCP's and UDP's.
const (
	sourceAt, destinationAt = 8, 24
	portAt                  = 2
)

func load(register, offset, size uint32) expr.Any {
	return &expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size}
}

func isService(prefix netip.Prefix) []expr.Any {
	size := uint32(prefix.Bits() / 8)
	return []expr.Any{
		load(first, destinationAt, size),
		&expr.Cmp{Op: expr.CmpOpEq, Register: first, Data: prefix.Masked().Addr().AsSlice()[:size]},
	}
}

// loadWhere loads what a packet to a service is known by.
func loadWhere() []expr.Any {
	return []expr.Any{
		load(first, destinationAt, addressBytes),
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: fifth},
		&expr.Payload{DestRegister: sixth, Base: expr.PayloadBaseTransportHeader, Offset: portAt, Len: 2},
	}
}

// toClasses sends a packet for a service on to the classes.
func toClasses(prefix netip.Prefix) []expr.Any {
	return append(isService(prefix), &expr.Verdict{Kind: expr.VerdictJump, Chain: classesChain})
}

// classesChain has one rule for each class.
const classesChain = "classes"

// membership sends the packets of a class's ports to its chain.
func (c class) membership() []expr.Any {
	return append(loadWhere(),
		&expr.Lookup{SourceRegister: first, SetName: classSet(c).Name},
		&expr.Verdict{Kind: expr.VerdictGoto, Chain: c.chain()},
	)
}

// refuse turns away what the maps know no pod for. Such packets arrive here because the
// machine has the prefix as a local one (see netstack.MachinePlan); no program on it is
// meant. TCP is reset: an ICMP error that comes back within the call that sent the packet
// is overlooked by Linux, and the client would wait a second.
func refuse(prefix netip.Prefix) (tcp, others []expr.Any) {
	tcp = append(isService(prefix),
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: first},
		&expr.Cmp{Op: expr.CmpOpEq, Register: first, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Reject{Type: unix.NFT_REJECT_TCP_RST},
	)
	return tcp, append(isService(prefix), &expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: portUnreachable})
}

// portUnreachable is code 4 of ICMPv6's destination unreachable (RFC 4443): a client
// sees "connection refused".
const portUnreachable = 4

// answerForItself gives a connection of a pod with itself the machine's address as its
// source: else the pod would answer itself without passing here, and from an address that
// it was not spoken to at.
func answerForItself(source netip.Addr) []expr.Any {
	return []expr.Any{
		load(first, sourceAt, addressBytes),
		load(second, destinationAt, addressBytes),
		&expr.Lookup{SourceRegister: first, SetName: hairpinSet().Name},
		&expr.Immediate{Register: first, Data: source.AsSlice()},
		&expr.NAT{Type: expr.NATTypeSourceNAT, Family: unix.NFPROTO_IPV6, RegAddrMin: first},
	}
}

// isExternal matches packets to the address of a load balancer.
func isExternal() []expr.Any {
	return []expr.Any{load(first, destinationAt, addressBytes), &expr.Lookup{SourceRegister: first, SetName: externalSet().Name}}
}

// closed refuses what is for the address of a load balancer and for no port of a service:
// the machine's own programs are not meant. Neighbour discovery has to get through.
func closed(protocol byte) []expr.Any {
	e := append(isExternal(),
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: first},
		&expr.Cmp{Op: expr.CmpOpEq, Register: first, Data: []byte{protocol}})
	if protocol == unix.IPPROTO_TCP {
		return append(e, &expr.Reject{Type: unix.NFT_REJECT_TCP_RST})
	}
	return append(e, &expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: portUnreachable})
}

// comeBack gives a connection from outside, through a load balancer, to a pod on another
// machine this machine's address as its source: the pod would answer the client directly,
// who does not know it.
func comeBack(source netip.Addr) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: first},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: first, Data: []byte(netstack.PodLinkPrefix)},
		&expr.Ct{Key: expr.CtKeyDST, Register: first},
		&expr.Lookup{SourceRegister: first, SetName: externalSet().Name},
		&expr.Immediate{Register: first, Data: source.AsSlice()},
		&expr.NAT{Type: expr.NATTypeSourceNAT, Family: unix.NFPROTO_IPV6, RegAddrMin: first},
	}
}

// hashSeed is the same on all machines, so that a client finds the same pod through any.
const hashSeed = 0x5374726c

// chain is the name of the class's chain.
func (c class) chain() string {
	if c.affinity {
		return fmt.Sprintf("client-%d", c.size)
	}
	return fmt.Sprintf("any-%d", c.size)
}

// exprs are the rule of the class's chain: it draws the number of an endpoint, or derives
// it from the client's address, and goes to the number's chain.
func (c class) exprs(numbers *nftables.Set) []expr.Any {
	var e []expr.Any
	if c.affinity {
		e = append(e, load(first, sourceAt, addressBytes),
			&expr.Hash{SourceRegister: first, DestRegister: first, Length: addressBytes, Modulus: c.size, Seed: hashSeed, Type: expr.HashTypeJenkins})
	} else {
		e = append(e, &expr.Numgen{Register: first, Modulus: c.size, Type: unix.NFT_NG_RANDOM})
	}
	return append(e, &expr.Lookup{SourceRegister: first, DestRegister: 0, IsDestRegSet: true, SetName: numbers.Name, SetID: numbers.ID})
}

// numbers leads from the number of an endpoint to its chain.
func (c class) numbers() (*nftables.Set, []nftables.SetElement) {
	set := &nftables.Set{
		Table: ourTable(), Anonymous: true, Constant: true, IsMap: true,
		KeyType: nftables.TypeInteger, DataType: nftables.TypeVerdict, KeyByteOrder: binaryutil.NativeEndian,
	}
	var elements []nftables.SetElement
	for n := range c.size {
		elements = append(elements, nftables.SetElement{
			Key: native(n), VerdictData: &expr.Verdict{Kind: expr.VerdictGoto, Chain: numberChain(n)},
		})
	}
	return set, elements
}

func numberChain(n uint32) string { return fmt.Sprintf("number-%d", n) }

func numberWhy(n uint32) string { return fmt.Sprintf("the pod with number %d", n) }

// numberExprs are the rule of a number's chain: it looks the endpoint up.
func numberExprs(n uint32) []expr.Any {
	return append(loadWhere(),
		&expr.Lookup{SourceRegister: first, DestRegister: first, IsDestRegSet: true, SetName: endpointsMap(n).Name},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV6, RegAddrMin: first, RegProtoMin: second, Specified: true},
	)
}

// why is the comment of the class's rules, by which they are recognised.
func (c class) why() string {
	if c.affinity {
		return fmt.Sprintf(whyClient, c.size)
	}
	return fmt.Sprintf(whyAny, c.size)
}

const (
	whyAny    = "any of %d pods"
	whyClient = "one of %d pods by the client's address"
)

// readClass takes why back.
func readClass(why string) (c class, ok bool) {
	for _, c.affinity = range []bool{false, true} {
		format := whyAny
		if c.affinity {
			format = whyClient
		}
		if _, err := fmt.Sscanf(why, format, &c.size); err == nil && c.why() == why && c.size > 0 {
			return c, true
		}
	}
	return class{}, false
}

// ensureClass makes the chain of a class and those of its numbers, unless they are
// there. It notes them at once: the edits of one transaction share them.
func ensureClass(conn *nftables.Conn, c class, have *content) error {
	if slices.Contains(have.classes, c) {
		return nil
	}
	for ; have.numbers < c.size; have.numbers++ {
		if err := addNumber(conn, have.numbers); err != nil {
			return err
		}
	}
	have.classes = append(have.classes, c)
	numbers, elements := c.numbers()
	if err := conn.AddSet(numbers, elements); err != nil {
		return fmt.Errorf("make chain %s: %w", c.chain(), err)
	}
	chain := conn.AddChain(&nftables.Chain{Name: c.chain(), Table: ourTable()})
	addRule(conn, chain, c.why(), c.exprs(numbers))
	if err := conn.AddSet(classSet(c), nil); err != nil {
		return fmt.Errorf("make set %s: %w", classSet(c).Name, err)
	}
	addRule(conn, &nftables.Chain{Name: classesChain, Table: ourTable()}, c.why(), c.membership())
	return nil
}

func addNumber(conn *nftables.Conn, n uint32) error {
	if err := conn.AddSet(endpointsMap(n), nil); err != nil {
		return fmt.Errorf("make map %s: %w", endpointsMap(n).Name, err)
	}
	chain := conn.AddChain(&nftables.Chain{Name: numberChain(n), Table: ourTable()})
	addRule(conn, chain, numberWhy(n), numberExprs(n))
	return nil
}

func addRule(conn *nftables.Conn, chain *nftables.Chain, why string, exprs []expr.Any) {
	conn.AddRule(&nftables.Rule{
		Table: ourTable(), Chain: chain, Exprs: exprs,
		UserData: userdata.AppendString(nil, userdata.TypeComment, why),
	})
}

// fixedRule is a rule of a base chain, with the comment by which it is recognised: the
// expressions that the kernel returns depend on its version.
type fixedRule struct {
	chain *nftables.Chain
	why   string
	exprs []expr.Any
}

// fixed are the base chains with their rules.
func fixed(cfg Config) []fixedRule {
	base := func(name string, kind nftables.ChainType, hook *nftables.ChainHook, priority *nftables.ChainPriority) *nftables.Chain {
		return &nftables.Chain{Name: name, Table: ourTable(), Type: kind, Hooknum: hook, Priority: priority}
	}
	input := base("input", nftables.ChainTypeFilter, nftables.ChainHookInput, nftables.ChainPriorityFilter)
	why := "services of " + cfg.Prefix.String()
	reset, refused := refuse(cfg.Prefix)
	prerouting := base("prerouting", nftables.ChainTypeNAT, nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest)
	output := base("output", nftables.ChainTypeNAT, nftables.ChainHookOutput, nftables.ChainPriorityNATDest)
	postrouting := base("postrouting", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource)
	external := append(isExternal(), &expr.Verdict{Kind: expr.VerdictJump, Chain: classesChain})
	return []fixedRule{
		{prerouting, why, toClasses(cfg.Prefix)},
		{prerouting, "services of load balancers", external},
		{output, why, toClasses(cfg.Prefix)},
		{output, "services of load balancers", external},
		{input, "TCP to what is no port of " + cfg.Prefix.String(), reset},
		{input, "whatever else is for " + cfg.Prefix.String(), refused},
		{input, "TCP to what is no port of a load balancer", closed(unix.IPPROTO_TCP)},
		{input, "UDP to what is no port of a load balancer", closed(unix.IPPROTO_UDP)},
		{postrouting, "a pod that reaches itself is answered by " + cfg.Source.String(), answerForItself(cfg.Source)},
		{postrouting, "pods elsewhere answer clients of load balancers through " + cfg.Source.String(), comeBack(cfg.Source)},
	}
}

// writeFixed makes the table anew with all that does not depend on services.
func writeFixed(conn *nftables.Conn, cfg Config) error {
	conn.AddTable(ourTable())
	conn.DelTable(ourTable()) // what is not there can't be deleted, hence the line before
	conn.AddTable(ourTable())
	if err := conn.AddSet(hairpinSet(), nil); err != nil {
		return fmt.Errorf("make set %s: %w", hairpinSet().Name, err)
	}
	if err := conn.AddSet(externalSet(), nil); err != nil {
		return fmt.Errorf("make set %s: %w", externalSet().Name, err)
	}
	conn.AddChain(&nftables.Chain{Name: classesChain, Table: ourTable()})
	made := map[string]bool{}
	for _, r := range fixed(cfg) {
		if !made[r.chain.Name] {
			conn.AddChain(r.chain)
			made[r.chain.Name] = true
		}
		addRule(conn, r.chain, r.why, r.exprs)
	}
	return nil
}
