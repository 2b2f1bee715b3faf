package relay

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"starling.dev/starling/netstack/service"
)

type rawConn = syscall.RawConn

const (
	// flowLife is how long packets of a client go to the same pod after the last one.
	flowLife = time.Minute
	// maxFlows bounds the clients of one port; those beyond are not served.
	maxFlows = 4096
	// maxPacket is the largest that UDP can carry.
	maxPacket = 1 << 16
)

// flows are the clients of one UDP port.
type flows struct {
	mu sync.Mutex // guards by
	by map[netip.AddrPort]*net.UDPConn
}

// servePackets sends each client's packets to a pod, and the pod's back.
func (r *Relay) servePackets(ctx context.Context, c *net.UDPConn, w service.Where) {
	defer context.AfterFunc(ctx, func() { c.Close() })()
	f := &flows{by: map[netip.AddrPort]*net.UDPConn{}}
	var open sync.WaitGroup
	defer open.Wait()
	buf := make([]byte, maxPacket)
	for {
		n, client, err := c.ReadFromUDPAddrPort(buf)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			continue // an ICMP error of somebody
		}
		pod := f.get(client)
		if pod == nil {
			if pod = r.open(ctx, w, f, client); pod == nil {
				continue
			}
			open.Go(func() { f.answer(ctx, c, pod, client) })
		}
		_ = pod.SetReadDeadline(time.Now().Add(flowLife))
		_, _ = pod.Write(buf[:n]) // lost, as packets are
	}
}

func (f *flows) get(client netip.AddrPort) *net.UDPConn {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.by[client]
}

func (r *Relay) open(ctx context.Context, w service.Where, f *flows, client netip.AddrPort) *net.UDPConn {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.by) >= maxFlows {
		return nil
	}
	for _, to := range r.targets(w) {
		var dialer net.Dialer
		if conn, err := dialer.DialContext(ctx, "udp6", to.String()); err == nil {
			f.by[client] = conn.(*net.UDPConn)
			return f.by[client]
		}
	}
	return nil
}

// answer carries a pod's packets back until there are none for long.
func (f *flows) answer(ctx context.Context, c, pod *net.UDPConn, client netip.AddrPort) {
	defer context.AfterFunc(ctx, func() { pod.Close() })()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.by, client)
		pod.Close()
	}()
	buf := make([]byte, maxPacket)
	for {
		n, err := pod.Read(buf)
		if err != nil {
			return
		}
		_ = pod.SetReadDeadline(time.Now().Add(flowLife))
		_, _ = c.WriteToUDPAddrPort(buf[:n], client)
	}
}
