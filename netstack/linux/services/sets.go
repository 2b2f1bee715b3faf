package services

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack/service"
)

func ourTable() *nftables.Table {
	return &nftables.Table{Name: TableName, Family: nftables.TableFamilyIPv6}
}

// classSet holds the ports of services whose endpoint is chosen alike.
func classSet(c class) *nftables.Set {
	return &nftables.Set{
		Table: ourTable(), Name: c.chain(),
		KeyType: nftables.MustConcatSetType(nftables.TypeIP6Addr, nftables.TypeInetProto, nftables.TypeInetService),
	}
}

// endpointsMap leads from address, protocol and port to the address and port of the pod
// with that number. (One map with the number in its key would do, but nft(8) can't list
// a rule that looks such a key up.)
func endpointsMap(number uint32) *nftables.Set {
	return &nftables.Set{
		Table: ourTable(), Name: fmt.Sprintf("endpoints-%d", number), IsMap: true,
		KeyType:  nftables.MustConcatSetType(nftables.TypeIP6Addr, nftables.TypeInetProto, nftables.TypeInetService),
		DataType: nftables.MustConcatSetType(nftables.TypeIP6Addr, nftables.TypeInetService),
	}
}

// hairpinSet holds each pod of this machine twice in one element: as source and as
// destination.
func hairpinSet() *nftables.Set {
	return &nftables.Set{
		Table: ourTable(), Name: "hairpin",
		KeyType: nftables.MustConcatSetType(nftables.TypeIP6Addr, nftables.TypeIP6Addr),
	}
}

func hairpin(a netip.Addr) nftables.SetElement {
	return nftables.SetElement{Key: append(a.AsSlice(), a.AsSlice()...)}
}

// externalSet holds the addresses of load balancers.
func externalSet() *nftables.Set {
	return &nftables.Set{Table: ourTable(), Name: "external", KeyType: nftables.TypeIP6Addr}
}

func externalElement(a netip.Addr) nftables.SetElement {
	return nftables.SetElement{Key: a.AsSlice()}
}

// Sizes of a key's parts: each takes whole registers of four bytes.
const (
	addressBytes = 16
	whereBytes   = addressBytes + 4 + 4
	valueBytes   = addressBytes + 4
)

func whereKey(w service.Where) []byte {
	key := make([]byte, whereBytes)
	copy(key, w.Address.AsSlice())
	key[addressBytes] = protocolNumber(w.Protocol)
	binary.BigEndian.PutUint16(key[addressBytes+4:], w.Port)
	return key
}

// readWhere takes whereKey back.
func readWhere(key []byte) (service.Where, bool) {
	if len(key) < whereBytes {
		return service.Where{}, false
	}
	a, ok := netip.AddrFromSlice(key[:addressBytes])
	protocol := "tcp"
	if key[addressBytes] == unix.IPPROTO_UDP {
		protocol = "udp"
	}
	return service.Where{Address: a, Protocol: protocol, Port: binary.BigEndian.Uint16(key[addressBytes+4:])}, ok
}

func protocolNumber(name string) byte {
	if name == "udp" {
		return unix.IPPROTO_UDP
	}
	return unix.IPPROTO_TCP
}

// The kernel draws and hashes numbers in its own byte order.
func native(n uint32) []byte { return binaryutil.NativeEndian.PutUint32(n) }

func endpointElement(w service.Where, to netip.AddrPort) nftables.SetElement {
	value := make([]byte, valueBytes)
	copy(value, to.Addr().AsSlice())
	binary.BigEndian.PutUint16(value[addressBytes:], to.Port())
	return nftables.SetElement{Key: whereKey(w), Val: value}
}

// readEndpoint takes endpointElement back.
func readEndpoint(key, value []byte) (service.Where, netip.AddrPort, bool) {
	w, ok := readWhere(key)
	if !ok || len(value) < valueBytes {
		return service.Where{}, netip.AddrPort{}, false
	}
	a, ok := netip.AddrFromSlice(value[:addressBytes])
	return w, netip.AddrPortFrom(a, binary.BigEndian.Uint16(value[addressBytes:])), ok
}
