package hostports

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"starling.dev/starling/netstack"
	"starling.dev/starling/netstack/linux/linuxtest"
)

const machineAddress = "2001:db8::5"

// world is a machine with pods, and its table of host ports.
func world(t *testing.T, pods int) (*linuxtest.World, *Table) {
	w := linuxtest.New(t, pods)
	w.Sh("ip link set lo up; ip addr add " + machineAddress + "/128 dev lo; ip addr add 192.0.2.5/32 dev lo")
	table, err := New(Config{Machine: w.Machine, Cluster: w.Cluster, Source: netstack.MachineAddress(w.Own)})
	linuxtest.Check(t, err)
	t.Cleanup(func() { linuxtest.Check(t, table.Close()) })
	return w, table
}

func port(w *linuxtest.World, pod int, host, to uint16) netstack.HostPort {
	return netstack.HostPort{Host: host, Pod: w.Pods[pod].Address, Port: to}
}

// A port of the machine leads to the pod: from other pods, from the machine, and from the
// pod itself; over TCP and UDP; and it is left alone at the cluster's addresses.
func TestHostPortLeadsToThePod(t *testing.T) {
	w, table := world(t, 2)
	w.Serve(0, 8080)
	w.ServeUDP(0, 8080)
	linuxtest.Check(t, table.Set(netstack.Entrances{Ports: []netstack.HostPort{port(w, 0, 80, 8080)}}))
	at := netip.MustParseAddrPort("[" + machineAddress + "]:80")
	for from, space := range map[string]string{"another pod": w.Pods[1].Space, "itself": w.Pods[0].Space, "the machine": w.Machine} {
		name, _, err := w.Ask(space, at)
		if err != nil || name != "pod0" {
			t.Errorf("from %s: %q, %v", from, name, err)
		}
	}
	conn, err := w.Dial(w.Pods[1].Space, "udp", at)
	linuxtest.Check(t, err)
	defer conn.Close()
	if answer, err := linuxtest.Say(conn); err != nil || answer != "pod0" {
		t.Errorf("over UDP: %q, %v", answer, err)
	}
	if name, _, err := w.Ask(w.Pods[1].Space, netip.AddrPortFrom(netstack.MachineAddress(w.Own), 80)); err == nil {
		t.Errorf("the machine's address in the cluster leads to %s", name)
	}
}

// The table is there while there are ports, is written when something changed and not
// otherwise, and comes back when somebody flushed it.
func TestSetAndSync(t *testing.T) {
	w, table := world(t, 2)
	list := netstack.Entrances{
		Ports:  []netstack.HostPort{port(w, 0, 80, 8080), {Host: 81, Pod: w.Pods[1].Address, IPv4: netip.MustParseAddr("10.63.0.9"), Port: 81}},
		Fronts: []netstack.Front{{At: netip.MustParseAddrPort("192.0.2.5:80"), Protocol: "udp", To: netip.MustParseAddr("10.62.64.9")}},
	}
	linuxtest.Check(t, table.Set(list))
	linuxtest.Check(t, table.Set(list))
	linuxtest.Check(t, table.Sync(list))
	if n := table.Writes(); n != 1 {
		t.Errorf("%d writes, want 1", n)
	}
	for _, harm := range []string{
		"nft delete table inet starling-ports", "nft flush chain inet starling-ports prerouting", "nft flush map inet starling-ports to4", "nft flush map inet starling-ports at4",
	} {
		w.Sh(harm)
		before := table.Writes()
		linuxtest.Check(t, table.Sync(list))
		if n := table.Writes() - before; n != 1 {
			t.Errorf("after %q: %d writes, want 1", harm, n)
		}
	}
	linuxtest.Check(t, table.Set(netstack.Entrances{}))
	w.Sh("if nft list tables | grep -q starling-ports; then exit 1; fi")
}

// What listens where host ports would lead away from it is found, with its program.
func TestListeners(t *testing.T) {
	w, table := world(t, 0)
	listen := func(address string) {
		linuxtest.Check(t, w.In(w.Machine, func() error {
			l, err := net.Listen("tcp", address)
			if err == nil {
				t.Cleanup(func() { l.Close() })
			}
			return err
		}))
	}
	listen("[::]:80")
	listen("192.0.2.5:81")
	listen("127.0.0.1:82")
	listen(netip.AddrPortFrom(netstack.MachineAddress(w.Own), 83).String())
	var packets net.PacketConn
	linuxtest.Check(t, w.In(w.Machine, func() (err error) {
		packets, err = net.ListenPacket("udp", "0.0.0.0:85")
		return err
	}))
	defer packets.Close()
	found, err := table.Listeners([]uint16{80, 81, 82, 83, 84, 85})
	linuxtest.Check(t, err)
	if len(found) != 3 {
		t.Errorf("found %v, want 80, 81 and 85", found)
	}
	for _, n := range []uint16{80, 81, 85} {
		if by := found[n]; !strings.Contains(by, fmt.Sprintf("(pid %d)", os.Getpid())) {
			t.Errorf("port %d is used by %q", n, by)
		}
	}
}
