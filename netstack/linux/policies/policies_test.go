package policies_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"starling.dev/starling/netstack/linux/linuxtest"
	"starling.dev/starling/netstack/linux/policies"
	"starling.dev/starling/netstack/policy"
	"starling.dev/starling/netstack/service"
)

// world is a machine with pods in namespaces, and a table of policies:
//
//	pod0 shop/client, pod1 shop/db, pod2 shop/other, pod3 lab/client, pod4 open/client
type world struct {
	*linuxtest.World
	table *policies.Table
	pods  []service.Pod
}

func check(t testing.TB, err error) {
	t.Helper()
	linuxtest.Check(t, err)
}

const self = "m"

func newWorld(t *testing.T) *world {
	w := &world{World: linuxtest.New(t, 5)}
	for i, name := range []string{"shop/client", "shop/db", "shop/other", "lab/client", "open/client"} {
		namespace, app, _ := strings.Cut(name, "/")
		k := service.Key{Namespace: namespace, Name: app}
		w.pods = append(w.pods, service.Pod{Key: k, Machine: self, Address: w.Pods[i].Address, Labels: map[string]string{"app": k.Name}})
		w.Serve(i, 80)
		w.Serve(i, 81)
		w.ServeUDP(i, 80)
	}
	w.open()
	return w
}

func (w *world) open() {
	table, err := policies.New(policies.Config{Machine: w.Machine, Cluster: w.Cluster})
	check(w.T, err)
	w.T.Cleanup(func() { check(w.T, table.Close()) })
	w.table = table
}

func allow(namespace, from, to string, ports ...policy.Port) policy.Allow {
	side := func(s string) policy.Side {
		ns, app, _ := strings.Cut(s, "/")
		out := policy.Side{Namespace: ns}
		if app != "" {
			out.Labels = map[string]string{"app": app}
		}
		return out
	}
	name := strings.NewReplacer("/", "-", "*", "any").Replace(from + "-" + to)
	return policy.Allow{Key: service.Key{Namespace: namespace, Name: name}, From: side(from), To: side(to), Ports: ports}
}

func (w *world) plan(allows ...policy.Allow) policy.Plan { return policy.Make(self, w.pods, allows) }

func (w *world) name(i int) string { return w.pods[i].String() }

// may asserts what gets through over TCP: a refusal is a reset, at once.
func (w *world) may(from, to int, port uint16, want bool) {
	w.T.Helper()
	_, _, err := w.Ask(w.Pods[from].Space, netip.AddrPortFrom(w.Pods[to].Address, port))
	switch {
	case want && err != nil:
		w.T.Errorf("%s to %s:%d: %v", w.name(from), w.name(to), port, err)
	case !want && !errors.Is(err, syscall.ECONNREFUSED):
		w.T.Errorf("%s to %s:%d gets through (%v)", w.name(from), w.name(to), port, err)
	}
}

func (w *world) mayUDP(from, to int, want bool) {
	w.T.Helper()
	conn, err := w.Dial(w.Pods[from].Space, "udp", netip.AddrPortFrom(w.Pods[to].Address, 80))
	check(w.T, err)
	defer conn.Close()
	if _, err := linuxtest.Say(conn); (err == nil) != want {
		w.T.Errorf("%s to %s by UDP: %v, want it to get through: %v", w.name(from), w.name(to), err, want)
	}
}

// TestWhoMayTalkToWhom is the table of what Allows mean. Pods are 0 shop/client, 1
// shop/db, 2 shop/other, 3 lab/client, 4 open/client.
func TestWhoMayTalkToWhom(t *testing.T) {
	web := policy.Port{Protocol: "tcp", Port: 80}
	for _, tt := range []struct {
		name   string
		allows []policy.Allow
		yes    []string // "FROM TO PORT"
		no     []string
	}{
		{"without any Allow all is open", nil, []string{"0 1 80", "0 3 81", "4 0 80"}, nil},
		{"one Allow closes the rest of its namespace, both ways", []policy.Allow{allow("shop", "shop/client", "shop/db")},
			[]string{"0 1 80", "0 1 81", "3 4 80"}, []string{"1 0 80", "2 1 80", "0 2 80", "3 1 80", "0 3 80", "4 0 80"}},
		{"by port", []policy.Allow{allow("shop", "shop/client", "shop/db", web)},
			[]string{"0 1 80"}, []string{"0 1 81"}},
		{"all of a namespace", []policy.Allow{allow("shop", "shop", "shop")},
			[]string{"0 1 80", "1 0 80", "2 1 81"}, []string{"3 1 80", "1 3 80"}},
		{"from another namespace", []policy.Allow{allow("shop", "lab/client", "shop/db", web)},
			[]string{"3 1 80"}, []string{"4 1 80", "0 1 80", "1 3 80"}},
		{"to another namespace", []policy.Allow{allow("shop", "shop/client", "lab", web)},
			[]string{"0 3 80"}, []string{"3 0 80", "0 3 81"}},
		{"two guarded namespaces need one each", []policy.Allow{allow("shop", "shop/client", "lab"), allow("lab", "lab", "lab")},
			nil, []string{"0 3 80"}},
		{"and then it is open", []policy.Allow{allow("shop", "shop/client", "lab"), allow("lab", "shop", "lab/client", web)},
			[]string{"0 3 80"}, []string{"0 3 81", "2 3 80"}},
		{"several Allows add up", []policy.Allow{allow("shop", "shop/client", "shop/db"), allow("shop", "open", "shop/other", web)},
			[]string{"0 1 81", "4 2 80"}, []string{"4 1 80"}},
		{"from anywhere", []policy.Allow{allow("shop", "*", "shop/db", web)},
			[]string{"3 1 80", "4 1 80", "2 1 80"}, []string{"3 2 80"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			check(t, w.table.Set(t.Context(), w.plan(tt.allows...)))
			ask := func(list []string, want bool) {
				for _, s := range list {
					var from, to int
					var port uint16
					if _, err := fmt.Sscan(s, &from, &to, &port); err != nil {
						t.Fatal(err)
					}
					w.may(from, to, port, want)
				}
			}
			ask(tt.yes, true)
			ask(tt.no, false)
		})
	}
}

func TestUDPAndTheWorldOutside(t *testing.T) {
	w := newWorld(t)
	check(t, w.table.Set(t.Context(), w.plan(
		allow("shop", "shop/client", "shop/db", policy.Port{Protocol: "udp", Port: 80}),
	)))
	w.mayUDP(0, 1, true)
	w.mayUDP(2, 1, false)
	w.may(0, 1, 80, false)
	if _, _, err := w.Ask(w.Machine, netip.AddrPortFrom(w.Pods[1].Address, 80)); err != nil {
		t.Errorf("the machine itself is kept out: %v", err)
	}
}

// TestOpenConnectionsGoOn: a change concerns new connections.
func TestOpenConnectionsGoOn(t *testing.T) {
	w := newWorld(t)
	check(t, w.table.Set(t.Context(), w.plan(allow("shop", "shop", "shop"))))
	conn, err := w.Dial(w.Pods[0].Space, "udp", netip.AddrPortFrom(w.Pods[1].Address, 80))
	check(t, err)
	defer conn.Close()
	if _, err := linuxtest.Say(conn); err != nil {
		t.Fatal(err)
	}
	check(t, w.table.Set(t.Context(), w.plan(allow("shop", "lab", "shop"))))
	if _, err := linuxtest.Say(conn); err != nil {
		t.Errorf("the open flow was cut: %v", err)
	}
	w.mayUDP(0, 2, false)
}

func TestSyncAdoptsAndRepairs(t *testing.T) {
	w := newWorld(t)
	plan := w.plan(allow("shop", "shop/client", "shop/db", policy.Port{Protocol: "tcp", Port: 80}), allow("lab", "lab", "lab"))
	check(t, w.table.Set(t.Context(), plan))
	check(t, w.table.Set(t.Context(), plan))
	if n := w.table.Writes(); n != 1 {
		t.Errorf("setting a plan twice took %d transactions", n)
	}
	w.open() // as a peer that starts again
	check(t, w.table.Sync(t.Context(), plan))
	if n := w.table.Writes(); n != 0 {
		t.Errorf("a plan that is in force was written %d times", n)
	}
	for name, script := range map[string]string{
		"ruleset flushed":     "nft flush ruleset",
		"rules flushed":       "nft flush table ip6 starling-policy",
		"a rule added":        "nft insert rule ip6 starling-policy forward accept",
		"a namespace flushed": "nft flush chain ip6 starling-policy ns/shop",
		"the pods flushed":    "nft flush map ip6 starling-policy pods",
		"an Allow flushed":    "nft flush set ip6 starling-policy from/shop/shop-client-shop-db",
	} {
		t.Run(name, func(t *testing.T) {
			w.Sh(script)
			check(t, w.table.Sync(t.Context(), plan))
			w.may(0, 1, 80, true)
			w.may(2, 1, 80, false)
		})
	}
}

func TestNothingToEnforceLeavesNothing(t *testing.T) {
	w := newWorld(t)
	check(t, w.table.Sync(t.Context(), w.plan(allow("shop", "shop", "shop"))))
	check(t, w.table.Sync(t.Context(), w.plan()))
	if left := w.Ruleset(policies.TableName); left != "" {
		t.Errorf("this is left:\n%s", left)
	}
	w.may(3, 1, 80, true)
}
