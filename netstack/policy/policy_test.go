package policy

import (
	"net/netip"
	"testing"

	"starling.dev/starling/netstack/service"
)

func pod(namespace, name, machine, address string) service.Pod {
	p := service.Pod{Key: service.Key{Namespace: namespace, Name: name}, Machine: machine, Labels: map[string]string{"app": name}}
	if address != "" {
		p.Address = netip.MustParseAddr(address)
	}
	return p
}

// TestPlan: only the machine's own pods are guarded, and Allows speak of all pods.
func TestPlan(t *testing.T) {
	pods := []service.Pod{
		pod("shop", "db", "m1", "fd00::2"), pod("shop", "web", "m1", "fd00::1"), pod("shop", "web2", "m2", "fd00::3"),
		pod("shop", "new", "m1", ""), pod("lab", "probe", "m2", "fd00::9"), pod("open", "x", "m1", "fd00::8"),
	}
	allows := []Allow{
		{service.Key{Namespace: "shop", Name: "b"}, Side{Namespace: "*"}, Side{"shop", map[string]string{"app": "web"}}, []Port{{"udp", 53}, {"tcp", 443}, {"tcp", 80}}},
		{service.Key{Namespace: "shop", Name: "a"}, Side{"shop", nil}, Side{"shop", map[string]string{"app": "db"}}, nil},
		{service.Key{Namespace: "shop", Name: "nobody"}, Side{"shop", map[string]string{"app": "none"}}, Side{"shop", nil}, nil},
		{service.Key{Namespace: "lab", Name: "a"}, Side{"lab", nil}, Side{"lab", nil}, nil},
	}
	want := `pod fd00::1 namespace shop
pod fd00::2 namespace shop
namespace shop
  a: from fd00::1, fd00::2, fd00::3 to fd00::2
  b: from fd00::1, fd00::2, fd00::3, fd00::8, fd00::9 to fd00::1 at tcp 80, tcp 443, udp 53
  refuse the rest
`
	if got := Make("m1", pods, allows).String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if p := Make("m3", pods, allows); !p.Empty() || p.String() != "" {
		t.Errorf("a machine without pods is to enforce\n%s", p)
	}
}
