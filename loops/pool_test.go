package loops

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// poolInputs are those of a service that wants addresses of a pool.
func poolInputs(id string, prefixes ...string) lifecycle.Inputs {
	in := inputs(api.Fields{"spec.pool": `"lan"`})
	in.ID, in.Key = id, api.Key{Kind: "Service", Namespace: "default", Name: id}
	if len(prefixes) > 0 {
		in.Fields["pool.prefixes"] = api.List(prefixes...)
	}
	return in
}

func TestTakeExternal(t *testing.T) {
	c := newFakeCluster()
	_, err := takeExternal(c, poolInputs("a"))
	if e := failure(t, err); e.Code != api.NotFound || !e.Wait {
		t.Errorf("without a pool: %v", e)
	}
	taken := map[string]bool{}
	for i := range 4 {
		in := poolInputs(fmt.Sprint("service", i), "192.0.2.4/30", "2001:db8::10/126")
		out, err := takeExternal(c, in)
		got := out.Strings("status.external")
		if err != nil || len(got) != 2 {
			t.Fatalf("took %v, %v", got, err)
		}
		for n, prefix := range []string{"2001:db8::10/126", "192.0.2.4/30"} {
			if !netip.MustParsePrefix(prefix).Contains(netip.MustParseAddr(got[n])) || taken[got[n]] {
				t.Errorf("took %s, of %s", got[n], prefix)
			}
			taken[got[n]] = true
		}
		in.Previous = out
		if again, err := takeExternal(c, in); err != nil || again["status.external"] != out["status.external"] {
			t.Errorf("had %v and took %v, %v", out, again, err)
		}
		c.objects = append(c.objects, &lifecycle.Object{Key: in.Key, ID: in.ID, Results: map[string]lifecycle.Result{"external": {Outputs: out}}})
	}
	_, err = takeExternal(c, poolInputs("late", "192.0.2.4/30", "2001:db8::10/126"))
	if e := failure(t, err); e.Code != api.PoolExhausted || !e.Wait {
		t.Errorf("from an empty pool: %v", e)
	}
}

// Two sides of a cut gave out one address: the service of the higher identity takes
// another, the other one stays.
func TestExternalClash(t *testing.T) {
	c := newFakeCluster()
	pool := &lifecycle.Object{Key: api.Key{Kind: "Pool", Name: "lan"}, Fields: api.Fields{"spec.prefixes": api.List("192.0.2.4/30")}}
	c.objects = append(c.objects, pool)
	for _, id := range []string{"a", "b"} {
		c.objects = append(c.objects, &lifecycle.Object{
			Key: api.Key{Kind: "Service", Namespace: "default", Name: id}, ID: id, Fields: api.Fields{"spec.pool": `"lan"`},
			Results: map[string]lifecycle.Result{"external": {Outputs: lifecycle.Outputs{"status.external": api.List("192.0.2.5")}}},
		})
	}
	for _, o := range c.objects[len(c.objects)-2:] {
		in := poolInputs(o.ID)
		in.Previous = o.Results["external"].Outputs
		for path, v := range DeriveService(o, c) {
			in.Fields[path] = v
		}
		out, err := takeExternal(c, in)
		if kept := out["status.external"] == in.Previous["status.external"]; err != nil || kept != (o.ID == "a") {
			t.Errorf("service %s has %v (%v)", o.ID, out, err)
		}
	}
}

// When a machine goes, only its addresses go to another.
func TestRankedMovesLittle(t *testing.T) {
	all := []string{"m1", "m2", "m3"}
	for i := range 100 {
		a := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
		before := Ranked(a, all)
		after := Ranked(a, slices.DeleteFunc(slices.Clone(all), func(m string) bool { return m == "m3" }))
		if before[0] != "m3" && after[0] != before[0] || before[0] == "m3" && after[0] != before[1] {
			t.Errorf("%s: %v, then %v", a, before, after)
		}
	}
}
