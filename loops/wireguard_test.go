package loops

import (
	"context"
	"errors"
	"testing"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// tunnelled gives a machine the end of tunnels.
func (c *fakeCluster) tunnelled(name string) {
	for _, o := range c.objects {
		if o.Key.Kind == "Machine" && o.Key.Name == name {
			o.Results["wireguard"] = lifecycle.Result{Phase: lifecycle.PhaseDone, Outputs: lifecycle.Outputs{
				"status.wireguard.key": `"K="`, "status.wireguard.port": "51820",
			}}
		}
	}
}

// tunnelHost is a host with a device.
type tunnelHost struct {
	*fakeHost
	asked []*bool
	end   TunnelEnd
	err   error
}

func (h *tunnelHost) Tunnels() Tunnels { return h }

func (h *tunnelHost) Ensure(_ context.Context, on *bool) (TunnelEnd, error) {
	h.asked = append(h.asked, on)
	return h.end, h.err
}

func TestTunnelEnd(t *testing.T) {
	end := TunnelEnd{Key: "K=", Port: 51820, Device: "process", MTU: 1420}
	host := &tunnelHost{fakeHost: newFakeHost(), end: end}
	for fields, want := range map[string]string{"": "nil", "true": "true", "false": "false"} {
		in := inputs(api.Fields{})
		if fields != "" {
			in = inputs(api.Fields{"spec.wireguard": fields})
		}
		out, err := tunnelEnd(context.Background(), host, in)
		if err != nil || out["status.wireguard.key"] != `"K="` || out["status.wireguard.port"] != "51820" || out["status.wireguard.mtu"] != "1420" {
			t.Errorf("got %v, %v", out, err)
		}
		got := "nil"
		if on := host.asked[len(host.asked)-1]; on != nil {
			got = api.Bool(*on)
		}
		if got != want {
			t.Errorf("spec.wireguard %q: the host was told %s, want %s", fields, got, want)
		}
	}
	host.end = TunnelEnd{}
	if out, err := tunnelEnd(context.Background(), host, inputs(api.Fields{})); err != nil || len(out) != 0 {
		t.Errorf("a machine without a device tells %v (%v)", out, err)
	}
	host.err = errors.New("no device")
	if _, err := tunnelEnd(context.Background(), host, inputs(api.Fields{})); !errors.Is(err, host.err) {
		t.Errorf("got %v", err)
	}
	if out, err := tunnelEnd(context.Background(), newFakeHost(), inputs(api.Fields{})); err != nil || len(out) != 0 {
		t.Errorf("a host that knows no tunnels: %v, %v", out, err)
	}
}

// A tunnel takes two: a machine is reached through one if both have an end.
func TestRouteByTunnel(t *testing.T) {
	both := `["192.0.2.2","fd00::b:0:0/96","wireguard:K=:51820"]`
	for _, tt := range []struct {
		name   string
		fields api.Fields
		tunnel bool
	}{
		{"both", api.Fields{"status.wireguard.key": `"O="`, "cluster.routes.b": both}, true},
		{"only the other", api.Fields{"cluster.routes.b": both}, false},
		{"only this one", api.Fields{"status.wireguard.key": `"O="`, "cluster.routes.b": `["192.0.2.2","fd00::b:0:0/96"]`}, false},
	} {
		host := newFakeHost()
		if _, err := route(context.Background(), host, inputs(tt.fields)); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if r := host.plan.Routes; len(r) != 1 || r[0].Tunnel != tt.tunnel || (len(host.plan.Tunnels) == 1) != tt.tunnel {
			t.Errorf("%s: got %+v", tt.name, host.plan)
		}
		if tt.tunnel {
			p := host.plan.Tunnels[0]
			if p.Machine != "b" || p.Key != "K=" || p.Port != 51820 || p.Address.String() != "192.0.2.2" || len(p.Prefixes) != 1 {
				t.Errorf("%+v", p)
			}
		}
	}
}
