package service

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func key(name string) Key {
	namespace, name, _ := strings.Cut(name, "/")
	return Key{Namespace: namespace, Name: name}
}

func samplePod(name, machine string, n byte, ready bool) Pod {
	return Pod{
		Key: key(name), Machine: machine, Serving: ready, Labels: map[string]string{"app": "web"},
		Address: netip.AddrFrom16([16]byte{0: 0xfd, 15: n}), Ports: map[string]uint16{"http": 8080},
	}
}

func sampleSpec(name string) Spec {
	return Spec{
		Key: key(name), Select: map[string]string{"app": "web"}, Address: netip.MustParseAddr("fd00::5:1"),
		Ports: []Port{{Name: "http", Protocol: "tcp", Port: 80}, {Name: "other", Protocol: "udp", Port: 53, Target: 5353}},
	}
}

func print(list []Forward) string {
	var lines []string
	for _, f := range list {
		lines = append(lines, f.String())
	}
	return strings.Join(lines, "\n")
}

func TestForwards(t *testing.T) {
	d := NewDirectory()
	second := samplePod("shop/b", "m2", 2, true)
	second.Ports = nil
	d.Update(Change{
		Services: []Spec{sampleSpec("shop/web")},
		Pods:     []Pod{second, samplePod("shop/a", "m1", 1, true), samplePod("shop/c", "m1", 3, false), samplePod("lab/a", "m1", 4, true)},
	})
	s, _ := d.Service(key("shop/web"))
	want := `fd00::5:1 . tcp . 80 : dnat ip6 to numgen random mod 2 map { 0 : fd00::1 . 8080, 1 : fd00::2 . 80 }
fd00::5:1 . udp . 53 : dnat ip6 to numgen random mod 2 map { 0 : fd00::1 . 5353, 1 : fd00::2 . 5353 }`
	if got := print(s.Forwards()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestPodsOfSilentMachinesStayUnlessThereAreOthers: a cut must not empty a name.
func TestPodsOfSilentMachinesStayUnlessThereAreOthers(t *testing.T) {
	d := NewDirectory()
	d.Update(Change{
		Services: []Spec{sampleSpec("shop/web")}, Machines: []Machine{{Name: "m1"}, {Name: "m2"}},
		Pods: []Pod{samplePod("shop/a", "m1", 1, true), samplePod("shop/b", "m2", 2, true)},
	})
	for _, step := range []struct {
		silent string
		want   string
	}{{"m1", "b"}, {"m2", "a b"}, {"", "a b"}} {
		c := Change{Machines: []Machine{{Name: step.silent, Silent: true}}}
		if step.silent == "" {
			c.Machines = []Machine{{Name: "m1"}, {Name: "m2"}}
		}
		e := d.Update(c)
		s, _ := d.Service(key("shop/web"))
		if got := names(s); got != step.want {
			t.Errorf("when %q is silent: %s, want %s (%d services changed)", step.silent, got, step.want, len(e.Services))
		}
	}
}

func names(s Service) string {
	var list []string
	for _, e := range s.Endpoints {
		list = append(list, e.Pod)
	}
	return strings.Join(list, " ")
}

func TestOwnersFollowAddresses(t *testing.T) {
	d := NewDirectory()
	d.Update(Change{
		Pods: []Pod{samplePod("shop/a", "m1", 1, true)}, Services: []Spec{sampleSpec("shop/web")},
		Machines: []Machine{{Name: "m1", Address: netip.MustParseAddr("fd00::9")}},
	})
	who := func(address string) string {
		o, ok := d.Owner(netip.MustParseAddr(address))
		switch {
		case !ok:
			return ""
		case o.Pod != nil:
			return "pod " + o.Pod.String()
		case o.Service != nil:
			return "service " + o.Service.String()
		}
		return "machine " + o.Machine
	}
	for address, want := range map[string]string{"fd00::1": "pod shop/a", "fd00::5:1": "service shop/web", "fd00::9": "machine m1", "fd00::7": ""} {
		if got := who(address); got != want {
			t.Errorf("%s belongs to %q, want %q", address, got, want)
		}
	}
	heir := samplePod("shop/b", "m1", 1, true) // takes over the address before the old one goes
	d.Update(Change{Pods: []Pod{heir}})
	d.Update(Change{GonePods: []Key{key("shop/a")}, GoneServices: []Key{key("shop/web")}, GoneMachines: []string{"m1"}})
	for address, want := range map[string]string{"fd00::1": "pod shop/b", "fd00::5:1": "", "fd00::9": ""} {
		if got := who(address); got != want {
			t.Errorf("afterwards %s belongs to %q, want %q", address, got, want)
		}
	}
}

// TestChangesAddUp: whatever the order of changes, the directory and the sum of its
// effects are those of the last state, and a service that stays the same is not told.
func TestChangesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := NewDirectory()
		pods, specs, kernel := map[Key]Pod{}, map[Key]Spec{}, map[Where]Forward{}
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			c := drawChange(t, pods, specs)
			for _, diff := range d.Update(c).Services {
				set, gone := diff.Changes()
				for _, w := range gone {
					delete(kernel, w)
				}
				for _, f := range set {
					kernel[f.Where] = f
				}
			}
			fresh := NewDirectory()
			fresh.Update(Change{Pods: slices.Collect(maps.Values(pods)), Services: slices.Collect(maps.Values(specs))})
			var want []Forward
			for _, s := range fresh.Services() {
				want = append(want, s.Forwards()...)
			}
			if len(want) != len(kernel) {
				t.Fatalf("%d forwards, want\n%s", len(kernel), print(want))
			}
			for _, f := range want {
				if !kernel[f.Where].Equal(f) {
					t.Fatalf("got %s, want %s", kernel[f.Where], f)
				}
			}
		}
	})
}

func drawChange(t *rapid.T, pods map[Key]Pod, specs map[Key]Spec) (c Change) {
	for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, 3), 0, 3, rapid.ID).Draw(t, "pods") {
		k := key(fmt.Sprintf("shop/p%d", i))
		if _, there := pods[k]; there && rapid.Bool().Draw(t, "gone") {
			c.GonePods = append(c.GonePods, k)
			delete(pods, k)
			continue
		}
		p := samplePod(k.String(), "m1", byte(i+1), rapid.Bool().Draw(t, "ready"))
		p.Labels["app"] = rapid.SampledFrom([]string{"web", "db"}).Draw(t, "app")
		c.Pods, pods[k] = append(c.Pods, p), p
	}
	for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, 2), 0, 2, rapid.ID).Draw(t, "services") {
		k := key(fmt.Sprintf("shop/s%d", i))
		if _, there := specs[k]; there && rapid.Bool().Draw(t, "gone") {
			c.GoneServices = append(c.GoneServices, k)
			delete(specs, k)
			continue
		}
		s := sampleSpec(k.String())
		s.Address = netip.AddrFrom16([16]byte{0: 0xfd, 13: 5, 15: byte(i)})
		s.Select["app"] = rapid.SampledFrom([]string{"web", "db"}).Draw(t, "select")
		s.Ports[0].Port = rapid.SampledFrom([]uint16{80, 81}).Draw(t, "port")
		c.Services, specs[k] = append(c.Services, s), s
	}
	return c
}
