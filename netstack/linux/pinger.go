package linux

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv6"
	"golang.org/x/sync/errgroup"
)

const (
	pingEvery = 500 * time.Millisecond
	// pingLost is how long a machine may give no answer before the next one answers for its
	// load balancers. Gossip takes longer to be sure, and here nothing is lost if two
	// machines answer for a while: both send connections on.
	pingLost = 2500 * time.Millisecond
)

// Pinger asks machines, by ICMP, whether they are there.
type Pinger struct {
	changed func() // called when a machine is lost or found

	mu   sync.Mutex // guards what follows
	seen map[netip.Addr]time.Time
	lost map[netip.Addr]bool
}

// NewPinger returns one that asks nobody. changed is called when a machine is lost or found; it
// must not block.
func NewPinger(changed func()) *Pinger {
	return &Pinger{changed: changed, seen: map[netip.Addr]time.Time{}, lost: map[netip.Addr]bool{}}
}

// String names the task.
func (p *Pinger) String() string { return "pings" }

// Watch says which machines to ask, by their addresses in the cluster.
func (p *Pinger) Watch(list []netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	keep := map[netip.Addr]bool{}
	for _, a := range list {
		keep[a] = true
		if _, ok := p.seen[a]; !ok {
			p.seen[a] = time.Now()
		}
	}
	for a := range p.seen {
		if !keep[a] {
			delete(p.seen, a)
			delete(p.lost, a)
		}
	}
}

// Lost reports whether a machine that is watched gives no answer.
func (p *Pinger) Lost(a netip.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost[a]
}

// Run asks until the context ends. Nothing is sent while nobody is watched.
func (p *Pinger) Run(ctx context.Context) error {
	conn, err := icmp.ListenPacket("ip6:ipv6-icmp", "::")
	if err != nil {
		return fmt.Errorf("open a socket for ICMP: %w", err)
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	g, ctx := errgroup.WithContext(ctx)
	id := os.Getpid() & 0xffff
	g.Go(func() error { return p.hear(ctx, conn, id) })
	g.Go(func() error {
		ticker := time.NewTicker(pingEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
				p.ask(conn, id)
			}
		}
	})
	return g.Wait()
}

func (p *Pinger) ask(conn *icmp.PacketConn, id int) {
	message := icmp.Message{Type: ipv6.ICMPTypeEchoRequest, Body: &icmp.Echo{ID: id, Data: []byte("starling")}}
	raw, err := message.Marshal(nil)
	if err != nil {
		return // it is plain data
	}
	p.mu.Lock()
	var list []netip.Addr
	news := false
	for a, seen := range p.seen {
		list = append(list, a)
		lost := time.Since(seen) > pingLost
		news = news || lost != p.lost[a]
		p.lost[a] = lost
	}
	p.mu.Unlock()
	for _, a := range list {
		_, _ = conn.WriteTo(raw, &net.IPAddr{IP: a.AsSlice()}) // no route is no answer
	}
	if news {
		p.changed()
	}
}

func (p *Pinger) hear(ctx context.Context, conn *icmp.PacketConn, id int) error {
	buf := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(buf)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			continue
		}
		m, err := icmp.ParseMessage(58, buf[:n])
		if err != nil || m.Type != ipv6.ICMPTypeEchoReply {
			continue
		}
		echo, ok := m.Body.(*icmp.Echo)
		at, valid := netip.AddrFromSlice(from.(*net.IPAddr).IP)
		if !ok || !valid || echo.ID != id {
			continue
		}
		p.mu.Lock()
		if _, watched := p.seen[at]; watched {
			p.seen[at] = time.Now()
		}
		p.mu.Unlock()
	}
}
