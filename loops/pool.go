package loops

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/sched"
)

// PoolTargets are the named points of a pool's lifecycle. It has no steps: services take
// addresses from it.
func PoolTargets() []lifecycle.Target {
	return []lifecycle.Target{{Name: api.TargetReady, Goal: true, Doc: "Services may have addresses of the pool."}}
}

// ServiceExternal takes the service's addresses for clients outside of the cluster from a
// pool, one of each family that the pool has. They stay as long as the pool has them.
func ServiceExternal() lifecycle.Loop {
	return lifecycle.Loop{
		Name: api.LoopExternal,
		Kind: "Service",
		Steps: []lifecycle.Step{{
			Name:     "external",
			Where:    lifecycle.OnExecutor,
			Reads:    []string{"spec.pool", "pool.prefixes", "pool.lost"},
			Consults: []string{"Pool", "Service"},
			Outputs:  []string{"status.external"},
			Timeout:  5 * time.Second,
			Decide:   takeExternal,
		}},
	}
}

// DeriveService adds what a service reads of its pool, below "pool.": its prefixes, and the
// addresses that an older service has too, which is possible when two sides of a cut gave
// out the same one.
func DeriveService(o *lifecycle.Object, v Surroundings) api.Fields {
	pool := o.Fields.String("spec.pool")
	if pool == "" {
		return nil
	}
	fields := api.Fields{}
	if p, ok := v.Object(api.Key{Kind: "Pool", Name: pool}); ok {
		fields["pool.prefixes"] = p.Fields["spec.prefixes"]
	}
	own := o.Select("status.external").Strings("status.external")
	if len(own) == 0 {
		return fields
	}
	var lost []string
	for _, other := range v.Objects("Service") {
		for _, a := range other.Select("status.external").Strings("status.external") {
			if other.ID < o.ID && slices.Contains(own, a) {
				lost = append(lost, a)
			}
		}
	}
	if len(lost) > 0 {
		fields["pool.lost"] = api.List(lost...)
	}
	return fields
}

// Ranked sorts machines by their turn to answer for an address of a pool, the same
// everywhere: when one goes, only the addresses that it had go to another.
func Ranked(a netip.Addr, machines []string) []string {
	object := a.String()
	return slices.SortedFunc(slices.Values(machines), func(x, y string) int {
		return cmp.Or(-cmp.Compare(sched.Score(object, x), sched.Score(object, y)), cmp.Compare(x, y))
	})
}

func takeExternal(v lifecycle.View, in lifecycle.Inputs) (lifecycle.Outputs, error) {
	pool := in.Fields.String("spec.pool")
	if pool == "" {
		return lifecycle.Outputs{}, nil
	}
	prefixes := parsePrefixes(in.Fields.Strings("pool.prefixes"))
	if len(prefixes) == 0 {
		return nil, &lifecycle.Error{
			Code: api.NotFound, Wait: true,
			Message: fmt.Sprintf("there is no pool %s; make one: kind: Pool, name: %s, spec: {prefixes: [192.0.2.16/28]}", pool, pool),
		}
	}
	taken := map[netip.Addr]bool{}
	for _, o := range v.Objects("Service") {
		for _, s := range o.Select("status.external").Strings("status.external") {
			if a, err := netip.ParseAddr(s); err == nil && o.Key != in.Key {
				taken[a] = true
			}
		}
	}
	keep := keptExternal(in)
	var got []string
	for _, six := range []bool{true, false} {
		family := slices.DeleteFunc(slices.Clone(prefixes), func(p netip.Prefix) bool { return p.Addr().Is6() != six })
		if len(family) == 0 {
			continue
		}
		a := pick(family, in.ID, keep, taken)
		if !a.IsValid() {
			return nil, &lifecycle.Error{
				Code: api.PoolExhausted, Wait: true,
				Message: fmt.Sprintf("pool %s has no free address left in %v; add a prefix to it", pool, family),
			}
		}
		got = append(got, a.String())
	}
	return lifecycle.Outputs{"status.external": api.List(got...)}, nil
}

// keptExternal are the addresses that the service has and need not give up.
func keptExternal(in lifecycle.Inputs) (keep []netip.Addr) {
	lost := in.Fields.Strings("pool.lost")
	for _, s := range in.Previous.Strings("status.external") {
		if a, err := netip.ParseAddr(s); err == nil && !slices.Contains(lost, s) {
			keep = append(keep, a)
		}
	}
	return keep
}

// pick returns the address of the prefixes that is kept, else a free one: the search
// begins where the service's identity says, so that two sides of a cut rarely choose alike.
func pick(prefixes []netip.Prefix, id string, keep []netip.Addr, taken map[netip.Addr]bool) netip.Addr {
	for _, a := range keep {
		if slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) }) {
			return a
		}
	}
	sum := sha256.Sum256([]byte(id))
	for _, p := range prefixes {
		size := uint64(1) << min(p.Addr().BitLen()-p.Bits(), 32)
		begin := binary.BigEndian.Uint64(sum[:]) % size
		for i := range min(size, maxTries) {
			if a := nth(p, (begin+i)%size); !taken[a] {
				return a
			}
		}
	}
	return netip.Addr{}
}

// maxTries bounds the search for a free address in one prefix.
const maxTries = 1 << 16

// nth is an address of a prefix, of which the last 32 bits at most are counted.
func nth(p netip.Prefix, n uint64) netip.Addr {
	b := p.Addr().AsSlice()
	low := b[len(b)-4:]
	binary.BigEndian.PutUint32(low, binary.BigEndian.Uint32(low)|uint32(n))
	a, _ := netip.AddrFromSlice(b)
	return a
}

func parsePrefixes(list []string) (prefixes []netip.Prefix) {
	for _, s := range list {
		if p, err := netip.ParsePrefix(s); err == nil {
			prefixes = append(prefixes, p)
		}
	}
	return prefixes
}
