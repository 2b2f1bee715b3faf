package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// oneServer bounds the wait for one resolver, when there are others.
const oneServer = 2 * time.Second

// Forwarder asks the machine's own resolvers, and keeps their answers for a while.
type Forwarder struct {
	files []string
	own   netip.Addr
	cache *cache

	mu      sync.Mutex // guards what follows
	read    time.Time  // when the servers were read
	servers []string
}

// NewForwarder makes a Forwarder that finds the resolvers in the first of the files
// (resolv.conf) that exists. own is our own address, which is never asked.
func NewForwarder(own netip.Addr, files ...string) *Forwarder {
	return &Forwarder{files: files, own: own, cache: newCache(time.Now)}
}

// MachineFiles say which resolvers a machine uses. Where systemd-resolved answers at a
// loopback address, its file names the servers behind it.
func MachineFiles() []string { return []string{"/run/systemd/resolve/resolv.conf", "/etc/resolv.conf"} }

// Ask is an Upstream.
func (f *Forwarder) Ask(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
	if m := f.cache.get(q); m != nil {
		return m, nil
	}
	servers, err := f.current()
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, server := range servers {
		m, err := exchange(ctx, q, server)
		if err == nil && (m.Rcode == dns.RcodeSuccess || m.Rcode == dns.RcodeNameError) {
			f.cache.put(q, m)
			return m, nil
		}
		if err == nil {
			err = fmt.Errorf("%s answered %s", server, dns.RcodeToString[m.Rcode])
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// exchange asks one resolver, again over TCP if the answer does not fit.
func exchange(ctx context.Context, q *dns.Msg, server string) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, oneServer)
	defer cancel()
	out := q.Copy()
	out.Id = dns.Id()
	for _, network := range []string{"udp", "tcp"} {
		c := &dns.Client{Net: network, UDPSize: datagram, Timeout: oneServer}
		m, _, err := c.ExchangeContext(ctx, out, server)
		if err != nil {
			return nil, fmt.Errorf("ask %s: %w", server, err)
		}
		if !m.Truncated {
			return m, nil
		}
	}
	return nil, fmt.Errorf("ask %s: the answer is truncated over TCP too", server)
}

// reread is how long the list of resolvers is used before the file is read again.
const reread = 5 * time.Second

func (f *Forwarder) current() ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.servers) > 0 && time.Since(f.read) < reread {
		return f.servers, nil
	}
	servers, err := f.find()
	if err != nil {
		return nil, err
	}
	f.servers, f.read = servers, time.Now()
	return servers, nil
}

func (f *Forwarder) find() ([]string, error) {
	for _, path := range f.files {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		c, err := dns.ClientConfigFromFile(path)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		var servers []string
		for _, s := range c.Servers {
			if a, err := netip.ParseAddr(s); err == nil && a != f.own {
				servers = append(servers, net.JoinHostPort(s, c.Port))
			}
		}
		if len(servers) > 0 {
			return servers, nil
		}
	}
	return nil, fmt.Errorf("this machine has no resolver to ask: name one in %s", f.files[len(f.files)-1])
}
