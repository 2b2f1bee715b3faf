package wireguard

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// change is what is to be told a device about one peer.
type change struct {
	Public   Key
	Remove   bool
	Endpoint netip.AddrPort // zero: as it is
	Prefixes []netip.Prefix // all that are behind it
}

// state is a peer as a device has it.
type state struct {
	Public         Key
	Endpoint       netip.AddrPort
	Handshake      time.Time
	Sent, Received uint64
}

// plan returns the changes that lead from what a device has, which was asked for by
// before, to what is wanted. The endpoint of a peer that the device knows is left alone
// unless the machine has moved since before, or the tunnel has been without a handshake
// for so long that what was learned is of no use.
func plan(have []state, before, wanted map[Key]Peer, now time.Time) (changes []change) {
	known := make(map[Key]state, len(have))
	for _, s := range have {
		known[s.Public] = s
		if _, ok := wanted[s.Public]; !ok {
			changes = append(changes, change{Public: s.Public, Remove: true})
		}
	}
	for _, p := range wanted {
		c := change{Public: p.Public, Prefixes: p.Prefixes}
		s, ok := known[p.Public]
		old, asked := before[p.Public]
		stale := now.Sub(s.Handshake) > expiry
		if !ok || !s.Endpoint.IsValid() || stale || asked && old.Endpoint != p.Endpoint {
			c.Endpoint = p.Endpoint
		}
		changes = append(changes, c)
	}
	slices.SortFunc(changes, func(a, b change) int { return bytes.Compare(a.Public[:], b.Public[:]) })
	return changes
}

// expiry is after how long a session's keys are of no use any more (WireGuard's
// REJECT_AFTER_TIME).
const expiry = 180 * time.Second

func sortTunnels(list []Tunnel) {
	slices.SortFunc(list, func(a, b Tunnel) int { return cmp.Compare(a.Machine, b.Machine) })
}
