package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
)

// hostPod has a port of its machine.
func hostPod(name string, port int, more string) string {
	image := fmt.Sprintf("%s\n      ports: {http: 8080}\n      hostPorts: {http: %d}", helloImage, port)
	return podSpec{name: name, image: image, args: serve, more: more}.String()
}

// A host port leads to its pod from other machines, over IPv6 and IPv4, and comes back
// when somebody flushes it; the machine gives it to one pod only.
func TestHostPort(t *testing.T) {
	c := need(t)
	c.remove(t, "pod/front", "pod/second", "pod/third", "pod/fourth")
	c.apply(t, 1, "alice", hostPod("front", 18080, ""))
	pod := c.awaitReady(t, 1, "front")
	n := pod.machine(t)
	six := "http://" + netip.AddrPortFrom(c.lab.AddressIPv6(n), 18080).String()
	four := "http://" + netip.AddrPortFrom(c.lab.Address(n), 18080).String()
	answers := func() {
		t.Helper()
		for _, url := range []string{six, four} {
			for from := 1; from <= machines; from++ {
				until(t, fmt.Sprintf("m%d gets an answer from %s", from, url), func() bool { return fetchFrom(c, from, url) == "hello from front\n" })
			}
		}
	}
	answers()
	c.flush(t, n)
	answers()

	// Each other machine takes one more pod with that port; then there is none left.
	c.apply(t, 1, "alice", join(hostPod("second", 18080, ""), hostPod("third", 18080, "")))
	for _, name := range []string{"second", "third"} {
		c.awaitReady(t, 2, name)
	}
	c.apply(t, 1, "alice", hostPod("fourth", 18080, ""))
	c.awaitWhy(t, 3, "fourth", `schedule: no machine fits: m1 host port 18080 is taken by pod/\w+; m2 host port 18080 is taken by pod/\w+; m3 .*`)
	c.must(t, 1, "delete", "pod/front")
	c.awaitReady(t, 1, "fourth")
}

// A port on which a program of the machine listens is not given to a pod; the program is
// named, and the pod runs as soon as the port is free.
func TestHostPortInUse(t *testing.T) {
	c := need(t)
	c.remove(t, "pod/front")
	var listeners []net.Listener
	for n := 1; n <= machines; n++ {
		err := c.lab.Within(n, func() error {
			l, err := net.Listen("tcp", ":18081")
			listeners = append(listeners, l)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	c.apply(t, 1, "alice", hostPod("front", 18081, ""))
	c.awaitWhy(t, 2, "front", `schedule: no machine fits: m1 port 18081 is in use on the host by e2e\.test \(pid \d+\); m2 port 18081 is in use .*; m3 port`)
	for _, l := range listeners {
		l.Close()
	}
	c.awaitReady(t, 1, "front")
}
