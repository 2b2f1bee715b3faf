package services_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"starling.dev/starling/netstack"
	"starling.dev/starling/netstack/linux/linuxtest"
	"starling.dev/starling/netstack/service"
)

func at(s service.Service) netip.AddrPort { return netip.AddrPortFrom(s.Address, s.Ports[0].Port) }

func TestConnectionsAreSpread(t *testing.T) {
	w := newWorld(t, 3)
	w.Serve(1, 8080)
	w.Serve(2, 8080)
	s := w.service(1, 1, 2)
	w.sync(s)
	for who, path := range map[string]string{"a pod": w.Pods[0].Space, "the machine": w.Machine} {
		counts := map[string]int{}
		for range 60 {
			name, _, err := w.Ask(path, at(s))
			if err != nil {
				t.Fatalf("%s: %v\n%s", who, err, w.ruleset())
			}
			counts[name]++
		}
		// The chance of fewer than 10 of 60 is less than 1 in 10 million.
		if counts["pod1"] < 10 || counts["pod2"] < 10 {
			t.Errorf("%s was answered by %v", who, counts)
		}
	}
}

func TestAClientStaysWithItsPod(t *testing.T) {
	w := newWorld(t, 4)
	for i := range 4 {
		w.Serve(i, 8080)
	}
	s := w.service(1, 0, 1, 2, 3)
	s.Affinity = true
	w.sync(s)
	chosen := map[string]bool{}
	for _, p := range w.Pods {
		first, _, err := w.Ask(p.Space, at(s))
		check(t, err)
		chosen[first] = true
		for range 10 {
			if name, _, err := w.Ask(p.Space, at(s)); err != nil || name != first {
				t.Fatalf("%s was answered by %s, then by %s, %v", p.Name, first, name, err)
			}
		}
	}
	if len(chosen) < 2 {
		t.Errorf("all clients were sent to %v", chosen)
	}
}

func TestAPodReachesItself(t *testing.T) {
	w := newWorld(t, 1)
	w.Serve(0, 8080)
	s := w.service(1, 0)
	w.sync(s)
	name, seen, err := w.Ask(w.Pods[0].Space, at(s))
	if want := netstack.MachineAddress(w.Own); err != nil || name != "pod0" || seen != want {
		t.Errorf("answered by %s to %s, %v; want the machine %s as the client", name, seen, err, want)
	}
}

func TestWithoutPodsClientsAreRefusedAtOnce(t *testing.T) {
	w := newWorld(t, 2)
	w.Serve(1, 8080)
	s := w.service(1, 1)
	w.sync(s)
	if _, _, err := w.Ask(w.Pods[0].Space, at(s)); err != nil {
		t.Fatal(err)
	}
	check(t, w.table.Update(nil, []service.Where{s.Forwards()[0].Where}))
	began := time.Now()
	_, _, err := w.Ask(w.Pods[0].Space, at(s))
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the client saw %v", err)
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("it was refused after %s", took)
	}
}

// TestEndpointsLeaveAndJoin: a changed service is one transaction, and open connections
// stay where they are.
func TestEndpointsLeaveAndJoin(t *testing.T) {
	w := newWorld(t, 3)
	w.ServeUDP(1, 8080)
	w.ServeUDP(2, 8080)
	s := w.service(1, 1)
	s.Ports[0].Protocol = "udp"
	w.sync(s, w.service(2, 2))
	conn, err := w.Dial(w.Pods[0].Space, "udp", at(s))
	check(t, err)
	defer conn.Close()
	if got := say(t, conn); got != "pod1" {
		t.Fatalf("answered by %s", got)
	}
	moved := w.service(1, 2)
	moved.Ports[0].Protocol = "udp"
	before := w.table.Writes()
	check(t, w.table.Update(moved.Forwards(), nil))
	if n := w.table.Writes() - before; n != 1 {
		t.Errorf("the change took %d transactions", n)
	}
	if got := say(t, conn); got != "pod1" {
		t.Errorf("the open flow went to %s", got)
	}
	forgot, err := w.table.Forget([]netip.Addr{w.Pods[1].Address}, true)
	if err != nil || forgot != 1 {
		t.Errorf("forgot %d flows, %v", forgot, err)
	}
	if got := say(t, conn); got != "pod2" {
		t.Errorf("after it was forgotten the flow went to %s", got)
	}
}

func say(t *testing.T, conn net.Conn) string {
	t.Helper()
	answer, err := linuxtest.Say(conn)
	check(t, err)
	return answer
}

// TestPortsChangeHands: an address and port of one service become another's in one step.
func TestPortsChangeHands(t *testing.T) {
	w := newWorld(t, 3)
	w.Serve(1, 8080)
	w.Serve(2, 8080)
	s := w.service(1, 1)
	w.sync(s)
	heir := w.service(2, 2)
	heir.Address = s.Address
	check(t, w.table.Update(heir.Forwards(), nil))
	if name, _, err := w.Ask(w.Pods[0].Space, at(s)); err != nil || name != "pod2" {
		t.Errorf("answered by %s, %v", name, err)
	}
	moved := heir // to another port
	moved.Ports = []service.Port{{Name: "http", Protocol: "tcp", Port: 81}}
	check(t, w.table.Update(service.Difference{Before: heir, After: moved}.Changes()))
	if name, _, err := w.Ask(w.Pods[0].Space, at(moved)); err != nil || name != "pod2" {
		t.Errorf("at the other port: answered by %s, %v", name, err)
	}
	if _, _, err := w.Ask(w.Pods[0].Space, at(s)); err == nil {
		t.Error("the old port still answers")
	}
}

// damage is what somebody may do to the table by hand.
var damage = map[string]string{
	"ruleset flushed":      "nft flush ruleset",
	"rules flushed":        "nft flush table ip6 starling-services",
	"a base chain flushed": "nft flush chain ip6 starling-services output",
	"a class flushed":      "nft flush chain ip6 starling-services any-2",
	"a class changed":      "nft add rule ip6 starling-services any-2 drop",
	"the ports flushed":    "nft flush set ip6 starling-services any-2",
	"the classes flushed":  "nft flush chain ip6 starling-services classes",
	"the pods flushed":     "nft flush map ip6 starling-services endpoints-0",
	"a number flushed":     "nft flush chain ip6 starling-services number-1",
	"the hairpins flushed": "nft flush set ip6 starling-services hairpin",
	"a stray chain":        "nft 'add chain ip6 starling-services any-9; add rule ip6 starling-services any-9 drop'",
}

func TestSyncAdoptsAndRepairs(t *testing.T) {
	w := newWorld(t, 3)
	w.Serve(1, 8080)
	w.Serve(2, 8080)
	list := []service.Service{w.service(1, 1, 2), w.service(2, 1)}
	w.sync(list...)
	whole := w.ruleset()
	w.open() // as a peer that starts again
	w.sync(list...)
	if n := w.table.Writes(); n != 0 || w.ruleset() != whole {
		t.Errorf("a table that is as it should be was written %d times", n)
	}
	for name, script := range damage {
		t.Run(name, func(t *testing.T) {
			w.Sh(script)
			w.sync(list...)
			if now := w.ruleset(); sorted(now) != sorted(whole) {
				t.Errorf("repaired:\n%s\nbefore:\n%s", now, whole)
			}
			for _, s := range list {
				if _, _, err := w.Ask(w.Pods[0].Space, at(s)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	w.sync()
	if strings.Contains(w.ruleset(), ". tcp .") {
		t.Errorf("services are left over:\n%s", w.ruleset())
	}
}

// sorted brings what the kernel lists in any order into one.
func sorted(ruleset string) string {
	fields := strings.FieldsFunc(ruleset, func(r rune) bool { return strings.ContainsRune(" \t\n,", r) })
	counts := map[string]int{}
	for _, f := range fields {
		counts[f]++
	}
	return fmt.Sprint(counts)
}

func TestPurgeLeavesNothing(t *testing.T) {
	w := newWorld(t, 1)
	w.sync(w.service(1, 0))
	check(t, w.table.Purge())
	w.Sh("test -z \"$(nft list tables ip6)\"")
	check(t, w.table.Purge())
}
