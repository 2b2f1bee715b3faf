package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"starling.dev/starling/api"
)

// mostUnheld is how long the address of a load balancer may be without a machine.
const mostUnheld = 5 * time.Second

// A service has addresses of the LAN, IPv6 and IPv4, at which a client that knows nothing of
// the cluster reaches its pods; one machine answers for them, and when that is lost, another
// does.
func TestLoadBalancer(t *testing.T) {
	c, l := need(t), need(t).lan(t)
	if err := l.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	stranger := clientWithin(func(f func() error) error { return l.Within(guestNumber, f) }, time.Second)
	six, four := l.Node(1).IPv6.Addr().As16(), l.Node(1).IPv4.Addr().As4()
	six[15], six[14], four[3], four[2] = 0x10, 0xee, 16, 0xee
	pool := fmt.Sprintf("kind: Pool\nname: lan\nspec: {prefixes: [\"%s/124\", %s/28]}\n", netip.AddrFrom16(six), netip.AddrFrom4(four))
	c.remove(t, "pod/web1", "pod/web2", "pod/web3", "service/web", "pool/lan")
	c.apply(t, 1, "alice", join(pool, web("web1"), web("web2"), web("web3"), service("web", "  pool: lan\n")))
	for _, name := range []string{"web1", "web2", "web3"} {
		c.awaitReady(t, 1, name)
	}
	s := c.await(t, 1, "service/web", "ready", func(s seen) bool { return s.GetObject().GetVerdict() == "converged" })
	external := api.Fields(s.GetObject().GetStatus()).Strings("status.external")
	if len(external) != 2 {
		t.Fatalf("the service has addresses %v, want one of each family", external)
	}
	holders := map[string]int{}
	t.Cleanup(func() {
		for n := 1; n <= machines && t.Failed(); n++ {
			t.Logf("m%d: %s", n, c.ask(t, n, "", "status", fmt.Sprintf("machine/m%d", n), "--net").out)
		}
	})
	for _, address := range external {
		url := "http://" + netip.AddrPortFrom(netip.MustParseAddr(address), 80).String() + "/"
		until(t, "a client on the LAN gets an answer from "+url, func() bool {
			_, err := get(stranger, url)
			return err == nil
		})
		by := map[string]bool{}
		until(t, "all pods answer at "+url, func() bool {
			answer, err := get(stranger, url)
			if err != nil {
				t.Fatalf("from %s: %v", url, err)
			}
			by[answer] = true
			return len(by) == 3
		})
		if _, err := get(stranger, strings.Replace(url, ":80/", ":81/", 1)); err == nil {
			t.Errorf("a port that the service does not have answers at %s", address)
		}
		holders[address] = c.holderOf(t, address)
	}

	c.whole(t)
	for _, address := range external {
		url := "http://" + netip.AddrPortFrom(netip.MustParseAddr(address), 80).String() + "/"
		for _, loss := range [][]string{{"kill"}, {"kill", "--peer"}} {
			c.losesHolder(t, loss, holders[address], address)
			until(t, "a client on the LAN gets an answer from "+url, func() bool {
				_, err := get(stranger, url)
				return err == nil
			})
		}
	}
}

// losesHolder takes the machine that answers for an address away, or its peer alone, until
// another machine answers for it: it refuses, on the LAN, what is no port of the service. (A
// port of the service may lead to a pod that was lost as well, of which gossip has to tell.)
func (c *cluster) losesHolder(t *testing.T, loss []string, lost int, address string) {
	t.Helper()
	l := c.lan(t)
	refuses := func() bool {
		return errors.Is(l.Within(guestNumber, func() error {
			conn, err := net.DialTimeout("tcp", netip.AddrPortFrom(netip.MustParseAddr(address), 81).String(), 500*time.Millisecond)
			if err == nil {
				conn.Close()
			}
			return err
		}), unix.ECONNREFUSED)
	}
	until(t, address+" refuses what is no port of the service", refuses)
	begin := time.Now()
	c.laboratory(t, loss[0], append(loss[1:], fmt.Sprint(lost))...)
	until(t, "another machine answers for "+address, func() bool {
		return slices.ContainsFunc(others(lost), func(n int) bool { return c.holds(t, n, address) }) && refuses()
	})
	took := time.Since(begin)
	t.Logf("after lab %v, %s moved within %s", loss, address, took.Round(time.Millisecond))
	if took > mostUnheld {
		t.Errorf("after lab %v, %s was without a machine for %s", loss, address, took)
	}
	c.laboratory(t, "start", fmt.Sprint(lost))
	for n := 1; n <= machines; n++ {
		c.awaitPhase(t, n, fmt.Sprintf("m%d", lost), "ready")
	}
	until(t, "the first machine alone answers again", func() bool {
		return c.holds(t, lost, address) && !slices.ContainsFunc(others(lost), func(n int) bool { return c.holds(t, n, address) })
	})
}

// others are the machines but for one.
func others(but int) (list []int) {
	for n := 1; n <= machines; n++ {
		if n != but {
			list = append(list, n)
		}
	}
	return list
}

// holderOf is the one machine that answers for an address.
func (c *cluster) holderOf(t *testing.T, address string) (holder int) {
	t.Helper()
	list := c.holdersOf(t, address)
	if len(list) != 1 {
		t.Fatalf("the machines %v answer for %s, want one", list, address)
	}
	return list[0]
}

// holdersOf are the machines that answer for an address: for a moment after one was lost, or
// has come back, there may be none or two.
func (c *cluster) holdersOf(t *testing.T, address string) (list []int) {
	t.Helper()
	for n := 1; n <= machines; n++ {
		if c.holds(t, n, address) {
			list = append(list, n)
		}
	}
	return list
}

func (c *cluster) holds(t *testing.T, n int, address string) bool {
	t.Helper()
	return strings.Contains(c.ask(t, n, "", "status", fmt.Sprintf("machine/m%d", n), "--net").out, "load balancer "+address)
}
