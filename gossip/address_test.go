package gossip

import (
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
)

// fakeHost is a machine whose addresses and routes tests change.
type fakeHost struct {
	mu     sync.Mutex
	own    []string
	routes map[string]string // target or "default" to source
}

func (h *fakeHost) set(own []string, routes map[string]string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.own, h.routes = own, routes
}

func (h *fakeHost) Own() (list []netip.Addr, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.own {
		list = append(list, netip.MustParseAddr(s))
	}
	return list, nil
}

func (h *fakeHost) Towards(target netip.Addr) (netip.Addr, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if src, ok := h.routes[target.String()]; ok {
		return netip.MustParseAddr(src), nil
	}
	if src, ok := h.routes["default"]; ok && target.Is4() == netip.MustParseAddr(src).Is4() {
		return netip.MustParseAddr(src), nil
	}
	return netip.Addr{}, errors.New("no route to host")
}

func TestAdvertisedAddress(t *testing.T) {
	// A virtual machine as Vagrant makes it: every one has 10.0.2.15 on the first
	// interface, and its own address on the second.
	nat := func() *fakeHost {
		return &fakeHost{own: []string{"127.0.0.1", "10.0.2.15", "192.168.56.11"},
			routes: map[string]string{"default": "10.0.2.15", "192.168.56.10": "192.168.56.11"}}
	}
	tests := []struct {
		name       string
		host       *fakeHost
		configured string
		bound      string
		targets    []string
		want       string
	}{
		{name: "towards the join target, not the first interface", host: nat(), targets: []string{"192.168.56.10"}, want: "192.168.56.11"},
		{name: "a guess while nobody is known", host: nat(), want: "10.0.2.15"},
		{name: "as configured", host: nat(), configured: "203.0.113.7", targets: []string{"192.168.56.10"}, want: "203.0.113.7"},
		{name: "as bound", host: nat(), bound: "192.168.56.11", want: "192.168.56.11"},
		{name: "bound to all", host: nat(), bound: "::", targets: []string{"192.168.56.10"}, want: "192.168.56.11"},
		{name: "no default route", host: &fakeHost{own: []string{"127.0.0.1", "::1", "fe80::1", "fd00::5"}}, want: "fd00::5"},
		{name: "loopback if there is nothing else", host: &fakeHost{own: []string{"127.0.0.1"}}, want: "127.0.0.1"},
		{name: "none", host: &fakeHost{own: []string{"fe80::1"}}, want: ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newAdvertised(parseOrZero(tt.configured), parseOrZero(tt.bound), tt.host)
			_, err := a.choose(addrs(tt.targets))
			if got := a.current(); got != parseOrZero(tt.want) || (err != nil) != (tt.want == "") {
				t.Errorf("advertises %v, %v; want %s", got, err, tt.want)
			}
		})
	}
}

func parseOrZero(s string) netip.Addr {
	a, _ := netip.ParseAddr(s)
	return a
}

func addrs(list []string) (out []netip.Addr) {
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func TestAdvertisedAddressOverTime(t *testing.T) {
	h := &fakeHost{own: []string{"10.0.2.15", "192.168.56.10", "192.168.57.10"}, routes: map[string]string{
		"default": "10.0.2.15", "192.168.56.11": "192.168.56.10", "192.168.57.11": "192.168.57.10"}}
	a := newAdvertised(netip.Addr{}, netip.IPv6Unspecified(), h)
	step := func(name, want string, wantChange bool, act func() bool) {
		t.Helper()
		if changed := act(); changed != wantChange || a.current().String() != want {
			t.Errorf("%s: %s, changed: %v", name, a.current(), changed)
		}
	}
	choose := func(targets ...string) func() bool {
		return func() bool {
			changed, err := a.choose(addrs(targets))
			if err != nil {
				t.Error(err)
			}
			return changed
		}
	}
	reached := func(local, remote string) func() bool {
		return func() bool { return a.reached(netip.MustParseAddr(local), netip.MustParseAddr(remote)) }
	}
	step("a guess at first", "10.0.2.15", true, choose())
	step("the guess stays", "10.0.2.15", false, choose())
	step("its own client proves nothing", "10.0.2.15", false, reached("127.0.0.1", "127.0.0.1"))
	step("the first to reach it proves an address", "192.168.56.10", true, reached("192.168.56.10", "192.168.56.11"))
	step("which is kept", "192.168.56.10", false, reached("192.168.57.10", "192.168.57.11"))
	step("whoever else is there", "192.168.56.10", false, choose("192.168.57.11"))
	h.set(slices.DeleteFunc(slices.Clone(h.own), func(s string) bool { return s == "192.168.56.10" }),
		map[string]string{"default": "10.0.2.15", "192.168.57.11": "192.168.57.10"})
	step("until the machine loses it", "192.168.57.10", true, choose("192.168.57.11"))
}
