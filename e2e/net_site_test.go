package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"
)

// Every machine serves a site, over IPv6 and IPv4, to clients that know nothing of the
// cluster, also while its pods are restarted one by one; and the port is nobody else's.
func TestSite(t *testing.T) {
	c, l := need(t), need(t).lan(t)
	if err := l.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	site := "kind: Site\nname: shop\nspec:\n  hosts: [shop.example.com]\n  routes: {all: {services: {web: 1}}}\n"
	c.remove(t, "pod/web1", "pod/web2", "service/web", "site/shop", "pod/front")
	c.apply(t, 1, "alice", join(web("web1"), web("web2"), service("web", ""), site))
	for _, name := range []string{"web1", "web2"} {
		c.awaitReady(t, 1, name)
	}
	for n := 1; n <= machines; n++ {
		for _, a := range []netip.Addr{c.lab.Address(n), c.lab.AddressIPv6(n)} {
			client := clientAt(func(f func() error) error { return l.Within(guestNumber, f) }, netip.AddrPortFrom(a, 80))
			until(t, fmt.Sprintf("m%d serves the site at %s", n, a), func() bool {
				_, err := get(client, "http://shop.example.com/")
				return err == nil
			})
			if _, err := get(client, "http://other.example.com/"); err == nil {
				t.Errorf("m%d serves a host of no site", n)
			}
		}
	}
	at := netip.AddrPortFrom(c.lab.Address(1), 80)
	load := startLoadBy(clientAt(func(f func() error) error { return l.Within(guestNumber, f) }, at), "http://shop.example.com/")
	for _, name := range []string{"web1", "web2"} {
		before := c.current(t, 1, name).number("containers.app.pid")
		c.must(t, 2, "restart", "pod/"+name)
		c.await(t, 1, name, "restarted", func(s seen) bool { return s.ready() && s.number("containers.app.pid") != before })
		count := load.answers(name)
		until(t, name+" is back in the site", func() bool { return load.answers(name) > count })
	}
	load.end(t)

	c.apply(t, 1, "alice", hostPod("front", 80, ""))
	c.awaitWhy(t, 3, "front", `schedule: no machine fits: m1 port 80 is in use on the host by peer \(pid \d+\)`)
	c.must(t, 1, "delete", "site/shop")
	c.awaitReady(t, 1, "front")
}

// clientAt speaks HTTP with one address, whatever host it asks for.
func clientAt(within func(func() error) error, at netip.AddrPort) *http.Client {
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (conn net.Conn, err error) {
			err = within(func() error {
				conn, err = new(net.Dialer).DialContext(ctx, network, at.String())
				return err
			})
			return conn, err
		},
	}}
}
