package gossip

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"starling.dev/starling/crdt"
)

// memberlist takes an address for a part of a node's identity: it refuses a live node
// that shows up at a new one. Here the key is the identity, so memberlist is given an
// address that never changes, a stand-in made from the machine's ID, and the real
// address travels as a tag. packetNet puts the real one in place as packets leave.
const standInPort = 7946

// connectTimeout is how long opening a TCP connection may take.
const connectTimeout = 2 * time.Second

// standIn is an address made from an ID. It is never seen outside this process and
// memberlist's messages, and nothing routes to it.
func standIn(id crdt.MachineID) netip.Addr {
	var a [16]byte
	a[0] = 0xfd
	copy(a[1:], id[:15])
	return netip.AddrFrom16(a)
}

var errFiltered = errors.New("no route to the machine (filtered)")

// packetNet is memberlist's transport: its own sockets, with stand-ins resolved.
type packetNet struct {
	*memberlist.NetTransport
	self   crdt.MachineID
	table  *table
	filter func(to crdt.MachineID) bool
	// reached is told the local address at which another machine reached this one.
	reached func(local, remote netip.Addr)
	streams chan net.Conn // unbuffered, as memberlist's own
	stop    chan struct{}
	once    sync.Once // closes stop
	traffic *traffic
}

// traffic counts the bytes sent, above UDP and TCP.
type traffic struct{ out atomic.Uint64 }

// countedConn counts what is sent over a connection.
type countedConn struct {
	net.Conn
	traffic *traffic
}

// Write writes and counts.
func (c countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.traffic.out.Add(uint64(n))
	return n, err
}

func newPacketNet(nt *memberlist.NetTransport, self crdt.MachineID, t *table, count *traffic) *packetNet {
	return &packetNet{
		NetTransport: nt, self: self, table: t, traffic: count,
		streams: make(chan net.Conn), stop: make(chan struct{}),
	}
}

// FinalAdvertiseAddr gives memberlist the stand-in of this machine.
func (p *packetNet) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return net.IP(standIn(p.self).AsSlice()), standInPort, nil
}

// WriteTo sends a packet to a stand-in or a real address.
func (p *packetNet) WriteTo(b []byte, addr string) (time.Time, error) {
	return p.WriteToAddress(b, memberlist.Address{Addr: addr})
}

// WriteToAddress sends a packet to a stand-in or a real address. What the filter holds
// back is lost without an error, as packets are.
func (p *packetNet) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	real, err := p.resolve(a)
	if errors.Is(err, errFiltered) {
		return time.Now(), nil
	}
	if err != nil {
		return time.Time{}, err
	}
	p.traffic.out.Add(uint64(len(b)))
	return p.NetTransport.WriteToAddress(b, real)
}

// DialTimeout opens a stream to a stand-in or a real address.
func (p *packetNet) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return p.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout opens a stream to a stand-in or a real address.
func (p *packetNet) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	real, err := p.resolve(a)
	if err != nil {
		return nil, err
	}
	// A machine that is gone must not hold up the search for one that is there.
	c, err := p.NetTransport.DialAddressTimeout(real, min(timeout, connectTimeout))
	if err != nil {
		return nil, err
	}
	return countedConn{c, p.traffic}, nil
}

func (p *packetNet) resolve(a memberlist.Address) (memberlist.Address, error) {
	ap, err := netip.ParseAddrPort(a.Addr)
	if err != nil {
		return a, nil // a host name; the dialer resolves it
	}
	id, ok := p.table.behind(ap.Addr())
	if ok {
		k, found := p.table.where(id)
		if !found {
			return a, errors.New("find the address of " + id.String() + ": not in the peer table")
		}
		a.Addr = k.Addr.String()
	}
	if p.filter == nil {
		return a, nil
	}
	if !ok {
		id = p.table.livesAt(unmap(ap))
	}
	if !p.filter(id) {
		return a, errFiltered
	}
	return a, nil
}

// StreamCh hands memberlist the streams that others opened.
func (p *packetNet) StreamCh() <-chan net.Conn { return p.streams }

// watchStreams notes where others reach this machine and passes their streams on, until
// Shutdown.
func (p *packetNet) watchStreams() {
	for {
		select {
		case c := <-p.NetTransport.StreamCh():
			p.note(c)
			select {
			case p.streams <- countedConn{c, p.traffic}:
			case <-p.stop:
				c.Close()
				return
			}
		case <-p.stop:
			return
		}
	}
}

func (p *packetNet) note(c net.Conn) {
	local, remote := addrOf(c.LocalAddr()), addrOf(c.RemoteAddr())
	if p.reached != nil && local.IsValid() && remote.IsValid() {
		p.reached(local, remote)
	}
}

// Shutdown closes the sockets. watchStreams must still run: a stream on its way holds
// up the listener that the sockets' shutdown waits for.
func (p *packetNet) Shutdown() error {
	err := p.NetTransport.Shutdown()
	p.once.Do(func() { close(p.stop) })
	return err
}

func addrOf(a net.Addr) netip.Addr {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}

// nodeAddr is the address by which memberlist knows a machine.
func nodeAddr(id crdt.MachineID) net.Addr {
	return net.UDPAddrFromAddrPort(netip.AddrPortFrom(standIn(id), standInPort))
}
