package fastpath

import (
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"
)

// Place is one of the places where a program of ours stands.
type Place string

// The places.
const (
	FromPod   Place = "starling_out"  // the machine's end of a pod's link
	ToPod     Place = "starling_in"   // the machine's NAT64 link
	FromInner Place = "starling_clat" // a pod's CLAT link
)

// What a program decides about a packet.
const (
	Passed     = -1 // it goes on its way, translated or not
	Dropped    = 2
	Redirected = 7 // to the link where it belongs
)

// Try runs a program on one Ethernet frame, without any link, and returns what it decides
// and what has become of the frame. Frames are all that the kernel can be given for that;
// hence Config.Header must be 14. It is how the programs are compared with package xlat.
func (p *Path) Try(at Place, frame []byte) (decision int, out []byte, err error) {
	program := map[Place]*ebpf.Program{FromPod: p.objects.Out, ToPod: p.objects.In}[at]
	if program == nil {
		if program, err = p.loadInside(map[string]any{"eth_mtu": uint32(p.cfg.MTU)}); err != nil {
			return 0, nil, err
		}
		defer program.Close()
	}
	opts := ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256)} // the kernel rounds up
	ret, err := program.Run(&opts)
	if err != nil {
		return 0, nil, fmt.Errorf("run %s: %w", at, err)
	}
	return int(int32(ret)), opts.DataOut, nil
}

// Tried is a pod for Try: the frames seem to come from the loopback link.
func Tried(address, native, behind netip.Addr) Pod {
	mac := make([]byte, 6)
	return Pod{Address: address, Native: native, Behind: behind, Link: 1, MTU: 1500, MachineMAC: mac, PodMAC: mac}
}
