package netstack

import (
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNamesFitAndCanBeTakenBack(t *testing.T) {
	part := rapid.StringMatching(`[A-Za-z0-9_-]{1,96}`)
	rapid.Check(t, func(t *rapid.T) {
		scope, id := part.Draw(t, "scope"), part.Draw(t, "id")
		if err := CheckName("scope", scope); err != nil {
			t.Fatal(err)
		}
		if link := HostLink(scope, id); len(link) > 15 || !IsHostLink(link) {
			t.Fatalf("link %q", link)
		}
		name := SpaceName(scope, id)
		if back, ok := PodOfName(scope, name); !ok || back != id || len(name) > 255 {
			t.Fatalf("%q of scope %q: %q, %v", name, scope, back, ok)
		}
		if other := part.Draw(t, "other"); other != scope {
			if back, ok := PodOfName(other, name); ok {
				t.Fatalf("scope %q takes %q for its pod %q", other, name, back)
			}
		}
	})
}

func TestCheckNameRefusesWhatCouldLeaveTheDirectory(t *testing.T) {
	for _, s := range []string{"", ".", "..", "a/b", "a.b", "a b", strings.Repeat("x", 97)} {
		if CheckName("pod ID", s) == nil {
			t.Errorf("%q is taken for a name", s)
		}
	}
}

func TestPickIPv4NeverDoublesAndFillsTheRange(t *testing.T) {
	pool := netip.MustParsePrefix("10.63.0.0/22")
	used := map[netip.Addr]bool{}
	for i := range 512 {
		a := PickIPv4(pool, strings.Repeat("x", i), func(a netip.Addr) bool { return used[a] })
		if used[a] || !pool.Contains(a) {
			t.Fatalf("pod %d gets %s", i, a)
		}
		used[a] = true
	}
	if a := PickIPv4(pool, "one more", func(a netip.Addr) bool { return used[a] }); a.IsValid() {
		t.Fatalf("%s is given from a full range", a)
	}
	for _, s := range []string{"10.63.0.255", "10.63.3.0"} {
		if used[netip.MustParseAddr(s)] {
			t.Errorf("%s is reserved", s)
		}
	}
}

func TestPickIPv4GivesAPodItsAddressAgain(t *testing.T) {
	free := func(netip.Addr) bool { return false }
	pool := netip.MustParsePrefix("10.63.0.0/16")
	if a, b := PickIPv4(pool, "web", free), PickIPv4(pool, "web", free); a != b || !a.IsValid() {
		t.Fatalf("%s, then %s", a, b)
	}
}
