package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"starling.dev/starling/api"
)

// A host port leads over IPv4 to pods that have no IPv4 of their own.
func TestHostPortOverIPv4Only(t *testing.T) {
	c := need(t)
	c.remove(t, "pod/translated", "pod/without")
	c.apply(t, 1, "alice", join(
		hostPort4("translated", 18082, "clat"), hostPort4("without", 18083, "none"),
	))
	for name, port := range map[string]uint16{"translated": 18082, "without": 18083} {
		n := c.awaitReady(t, 1, name).machine(t)
		url := "http://" + netip.AddrPortFrom(c.lab.Address(n), port).String()
		answers := func() {
			t.Helper()
			for from := 1; from <= machines; from++ {
				until(t, fmt.Sprintf("m%d gets an answer from %s at %s", from, name, url), func() bool {
					return fetchFrom(c, from, url) == "hello from "+name+"\n"
				})
			}
		}
		answers()
		c.flush(t, n)
		answers()
		if err := c.lab.KillPeer(n); err != nil {
			t.Fatal(err)
		}
		c.laboratory(t, "start", fmt.Sprint(n))
		answers()
	}
}

func hostPort4(name string, port int, ipv4 string) string {
	return hostPod(name, port, "  network: {ipv4: "+ipv4+"}\n")
}

// Connections through a load balancer's addresses of both families go on when the peer of any
// machine is killed and started again: that of the machine that answers for them, and those
// of the others, which must not take the addresses over for not having heard of it yet.
func TestLoadBalancedConnectionsOutliveThePeer(t *testing.T) {
	c, l := need(t), need(t).lan(t)
	if err := l.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	six, four := l.Node(1).IPv6.Addr().As16(), l.Node(1).IPv4.Addr().As4()
	six[15], six[14], four[3], four[2] = 0x10, 0xef, 16, 0xef
	pool := fmt.Sprintf("kind: Pool\nname: lan\nspec: {prefixes: [\"%s/124\", %s/28]}\n", netip.AddrFrom16(six), netip.AddrFrom4(four))
	ports := "kind: Service\nname: web\nspec:\n  select: {app: web}\n  pool: lan\n  ports: {udp: {port: 9, protocol: udp}, tcp: {port: 9}}\n"
	c.remove(t, "pod/web1", "pod/web2", "pod/web3", "service/web", "pool/lan")
	c.apply(t, 1, "alice", join(pool, web("web1"), web("web2"), web("web3"), ports))
	for _, name := range []string{"web1", "web2", "web3"} {
		c.awaitReady(t, 1, name).names(t, name)
	}
	s := c.await(t, 1, "service/web", "ready", func(s seen) bool { return s.GetObject().GetVerdict() == "converged" })
	dial := func(network string, to netip.AddrPort) (conn net.Conn, err error) {
		err = l.Within(guestNumber, func() error {
			conn, err = net.DialTimeout(network, to.String(), time.Second)
			return err
		})
		return conn, err
	}
	var flows []established
	for _, address := range api.Fields(s.GetObject().GetStatus()).Strings("status.external") {
		until(t, "one machine answers for "+address, func() bool { return len(c.holdersOf(t, address)) == 1 })
		to := netip.AddrPortFrom(netip.MustParseAddr(address), 9)
		for _, network := range []string{"udp", "tcp"} {
			e := established{address: address, what: "the flow over " + network + " to " + address}
			until(t, e.what+" begins", func() bool {
				conn, err := dial(network, to)
				if err != nil {
					return false
				}
				t.Cleanup(func() { conn.Close() })
				e.flow = flow{conn}
				e.by, err = e.ask()
				return err == nil
			})
			flows = append(flows, e)
		}
	}
	for _, holder := range []int{1, 2, 3} {
		if err := c.lab.KillPeer(holder); err != nil {
			t.Fatal(err)
		}
		c.laboratory(t, "start", fmt.Sprint(holder))
		for _, f := range flows {
			until(t, fmt.Sprintf("%s goes on after m%d", f.what, holder), func() bool {
				answer, err := f.ask()
				return err == nil && answer == f.by
			})
			until(t, "one machine answers for "+f.address, func() bool { return len(c.holdersOf(t, f.address)) == 1 })
		}
	}
}

// established is a flow and who answered it first.
type established struct {
	flow
	address, what, by string
}
