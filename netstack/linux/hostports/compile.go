package hostports

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"starling.dev/starling/api"
	"starling.dev/starling/netstack"
	"starling.dev/starling/netstack/linux/nft"
)

func ourTable() *nftables.Table {
	return &nftables.Table{Name: TableName, Family: nftables.TableFamilyINet}
}

// Names of the sets.
const (
	to4Map, to6Map = "to4", "to6"
	at4Map         = "at4"
	selfSet        = "self"
)

// compile puts the ports into the kernel's words.
func compile(cfg Config, e netstack.Entrances, hash string) nft.Content {
	to4 := nft.Set{Set: toMap(to4Map, nftables.TypeIPAddr)}
	to6 := nft.Set{Set: toMap(to6Map, nftables.TypeIP6Addr)}
	self := nft.Set{Set: &nftables.Set{
		Table: ourTable(), Name: selfSet, KeyType: nftables.MustConcatSetType(nftables.TypeIP6Addr, nftables.TypeIP6Addr),
	}}
	pods := map[netip.Addr]bool{}
	for _, p := range e.Ports {
		for _, protocol := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
			to6.Elements = append(to6.Elements, toElement(protocol, p.Host, p.Pod, p.Port))
			if p.IPv4.IsValid() {
				to4.Elements = append(to4.Elements, toElement(protocol, p.Host, p.IPv4, p.Port))
			}
		}
		if !pods[p.Pod] {
			pods[p.Pod] = true
			self.Elements = append(self.Elements, nftables.SetElement{Key: append(p.Pod.AsSlice(), p.Pod.AsSlice()...)})
		}
	}
	return nft.Content{
		Chains: []*nftables.Chain{
			natChain(prerouting, nftables.ChainHookPrerouting, priority),
			natChain(output, nftables.ChainHookOutput, priority),
			natChain(postrouting, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource),
		},
		Sets: []nft.Set{to4, to6, at4(e.Fronts), self},
		Rules: append(slices.Concat(lead(cfg, prerouting, hash), lead(cfg, output, hash)),
			nft.Rule{Chain: postrouting, Comment: "a pod that reaches itself is answered by " + cfg.Source.String(), Exprs: answerForItself(cfg.Source)}),
	}
}

// Names of the chains.
const prerouting, output, postrouting = "prerouting", "output", "postrouting"

// priority is behind that of services: addresses of load balancers are the machine's too,
// and their ports come first.
var priority = nftables.ChainPriorityRef(*nftables.ChainPriorityNATDest + 1)

func natChain(name string, hook *nftables.ChainHook, priority *nftables.ChainPriority) *nftables.Chain {
	return &nftables.Chain{Name: name, Table: ourTable(), Type: nftables.ChainTypeNAT, Hooknum: hook, Priority: priority}
}

func toMap(name string, address nftables.SetDatatype) *nftables.Set {
	return &nftables.Set{
		Table: ourTable(), Name: name, IsMap: true,
		KeyType:  nftables.MustConcatSetType(nftables.TypeInetProto, nftables.TypeInetService),
		DataType: nftables.MustConcatSetType(address, nftables.TypeInetService),
	}
}

// at4 leads from an address of a load balancer, a protocol and a port to the address that the
// NAT64 takes for it.
func at4(fronts []netstack.Front) nft.Set {
	set := nft.Set{Set: &nftables.Set{
		Table: ourTable(), Name: at4Map, IsMap: true,
		KeyType:  nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService),
		DataType: nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetService),
	}}
	for _, f := range fronts {
		protocol := byte(unix.IPPROTO_TCP)
		if f.Protocol == api.ProtocolUDP {
			protocol = unix.IPPROTO_UDP
		}
		e := toElement(protocol, f.At.Port(), f.To, f.At.Port())
		e.Key = append(f.At.Addr().AsSlice(), e.Key...)
		set.Elements = append(set.Elements, e)
	}
	return set
}

// toElement leads from a protocol and a port to an address and a port. Each part of a key
// or a value takes whole registers of four bytes.
func toElement(protocol byte, host uint16, pod netip.Addr, port uint16) nftables.SetElement {
	key := []byte{protocol, 0, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint16(key[4:], host)
	value := append(pod.AsSlice(), 0, 0, 0, 0)
	binary.BigEndian.PutUint16(value[len(value)-4:], port)
	return nftables.SetElement{Key: key, Val: value}
}

// Registers: the first and the second hold 16 bytes each, those of a half key four.
const (
	first, second               = 1, 2
	half, nextHalf, thirdOfFour = 8, 9, 10 // words of the first
)

// lead are the rules that send what is for an address of the machine on to pods.
func lead(cfg Config, chain, hash string) []nft.Rule {
	v6 := slices.Concat(family(unix.NFPROTO_IPV6), isLocal(),
		unless(24, cfg.Cluster), unless(24, netip.MustParsePrefix("::1/128")), lookUp(to6Map),
		[]expr.Any{&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV6, RegAddrMin: first, RegProtoMin: second, Specified: true}})
	v4 := slices.Concat(family(unix.NFPROTO_IPV4), isLocal(), unless(16, netip.MustParsePrefix("127.0.0.0/8")), lookUp(to4Map),
		[]expr.Any{&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: first, RegProtoMin: nextHalf, Specified: true}})
	fronts := slices.Concat(family(unix.NFPROTO_IPV4), isLocal(), lookUpAt(at4Map),
		[]expr.Any{&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: first, RegProtoMin: nextHalf, Specified: true}})
	return []nft.Rule{
		{Chain: chain, Comment: "IPv4 to a port of a load balancer", Exprs: fronts},
		{Chain: chain, Comment: "IPv6 to a port of a pod (ports " + hash + ")", Exprs: v6},
		{Chain: chain, Comment: "IPv4 to a port of a pod", Exprs: v4},
	}
}

func family(number byte) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: first},
		&expr.Cmp{Op: expr.CmpOpEq, Register: first, Data: []byte{number}},
	}
}

// isLocal matches packets to an address of the machine.
func isLocal() []expr.Any {
	return []expr.Any{
		&expr.Fib{Register: first, FlagDADDR: true, ResultADDRTYPE: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: first, Data: binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)},
	}
}

// unless passes over what is for a prefix, whose length is a number of bytes.
func unless(offset uint32, p netip.Prefix) []expr.Any {
	size := uint32(p.Bits() / 8)
	return []expr.Any{
		&expr.Payload{DestRegister: first, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: first, Data: p.Masked().Addr().AsSlice()[:size]},
	}
}

// lookUp finds where the port leads, or ends the rule.
func lookUp(name string) []expr.Any {
	const portAt = 2 // of the destination, in TCP's and UDP's headers
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: half},
		&expr.Payload{DestRegister: nextHalf, Base: expr.PayloadBaseTransportHeader, Offset: portAt, Len: 2},
		&expr.Lookup{SourceRegister: half, DestRegister: first, IsDestRegSet: true, SetName: name},
	}
}

// lookUpAt finds where the port of the address leads, or ends the rule.
func lookUpAt(name string) []expr.Any {
	const addressAt, portAt = 16, 2
	return []expr.Any{
		&expr.Payload{DestRegister: half, Base: expr.PayloadBaseNetworkHeader, Offset: addressAt, Len: 4},
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: nextHalf},
		&expr.Payload{DestRegister: thirdOfFour, Base: expr.PayloadBaseTransportHeader, Offset: portAt, Len: 2},
		&expr.Lookup{SourceRegister: half, DestRegister: first, IsDestRegSet: true, SetName: name},
	}
}

// answerForItself gives a connection of a pod with itself the machine's address as its
// source: else the pod would answer itself without passing here.
func answerForItself(source netip.Addr) []expr.Any {
	const sourceAt, destinationAt, size = 8, 24, 16
	return slices.Concat(family(unix.NFPROTO_IPV6), []expr.Any{
		&expr.Payload{DestRegister: first, Base: expr.PayloadBaseNetworkHeader, Offset: sourceAt, Len: size},
		&expr.Payload{DestRegister: second, Base: expr.PayloadBaseNetworkHeader, Offset: destinationAt, Len: size},
		&expr.Lookup{SourceRegister: first, SetName: selfSet},
		&expr.Immediate{Register: first, Data: source.AsSlice()},
		&expr.NAT{Type: expr.NATTypeSourceNAT, Family: unix.NFPROTO_IPV6, RegAddrMin: first},
	})
}
