package daemon

import (
	"context"
	"net/netip"
	"testing"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/gossip"
	"starling.dev/starling/lifecycle"
)

// Each address of a pool is one machine's, and never that of a machine that was removed,
// whose object stays.
func TestAddressesAreTheMembers(t *testing.T) {
	pool := &lifecycle.Object{Key: api.Key{Kind: "Pool", Name: "lan"}}
	ids := map[string]crdt.MachineID{"m1": {1}, "m2": {2}, "m3": {3}}
	var machines []*lifecycle.Object
	for _, name := range []string{"m1", "m2", "m3", "removed"} {
		machines = append(machines, &lifecycle.Object{Key: api.Key{Kind: "Machine", Name: name}})
	}
	f := &follower{}
	f.balancer.watch = gossip.NewWatcher(func(context.Context, crdt.MachineID) error { return nil }, func() {})
	f.seen = view{pools: []*lifecycle.Object{pool}, machines: membersOf(machines, ids), ids: ids, silent: map[string]bool{}}
	for n := range 64 {
		address := netip.AddrFrom4([4]byte{192, 0, 2, byte(n)})
		holders := 0
		for name := range ids {
			f.self = name
			if here, _ := f.answersFor(address, f.candidates("lan")); here {
				holders++
			}
			if holders > 1 {
				t.Fatalf("%s has two holders", address)
			}
		}
		if holders != 1 {
			t.Errorf("%s has no holder", address)
		}
	}
}
