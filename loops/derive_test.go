package loops

import (
	"maps"
	"slices"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// podOn is a pod that was placed, with an address, and connected by a machine if that is
// named.
func podOn(machine, address, connected string) *lifecycle.Object {
	o := &lifecycle.Object{
		Key: api.Key{Kind: "Pod", Namespace: "default", Name: "web"}, ID: "id", Fields: api.Effective("Pod", api.Fields{}),
		Results: map[string]lifecycle.Result{
			"schedule": {Phase: lifecycle.PhaseDone, Outputs: lifecycle.Outputs{"status.machine": api.Str(machine)}},
			"address":  {Phase: lifecycle.PhaseDone, Outputs: lifecycle.Outputs{"status.address": api.Str(address)}},
		},
	}
	if connected != "" {
		o.Results["network"] = lifecycle.Result{Phase: lifecycle.PhaseDone, Executor: connected}
	}
	return o
}

func TestDerivePod(t *testing.T) {
	c := newFakeCluster()
	c.objects[0] = fakeMachine("a", api.Fields{"spec.reserve.cpu": `"1"`, "spec.reserve.memory": `"1Gi"`})
	want := api.Fields{"machine.standing": `"good"`, "machine.prefix": `"fd00::a:0:0/96"`, "machine.capacity.cpu": `"3"`, "machine.capacity.memory": `"7Gi"`}
	if got := DerivePod(podOn("a", "fd00::a:0:1", ""), c); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	unplaced := &lifecycle.Object{Fields: api.Fields{}}
	if got := DerivePod(unplaced, c); len(got) != 0 {
		t.Errorf("a pod without a machine reads %v of one", got)
	}
}

// Silence counts after the pod's grace, when the voters find it too; and only for a pod
// that may be replaced.
func TestStanding(t *testing.T) {
	silent := lifecycle.Member{Since: start0, Silent: true}
	unsure := lifecycle.Member{Since: start0}
	for _, tt := range []struct {
		name   string
		member lifecycle.Member
		fields api.Fields
		target string
		after  time.Duration
		want   string
		asks   bool
		wakes  bool
	}{
		{name: "alive", member: lifecycle.Member{Alive: true}, want: StandingGood},
		{name: "drained", member: lifecycle.Member{Alive: true}, target: `"drained"`, want: StandingDrained},
		{name: "removed", member: lifecycle.Member{Alive: true, Removed: true}, want: StandingRemoved},
		{name: "silent within the grace", member: silent, after: 29 * time.Second, want: StandingGood, wakes: true},
		{name: "silent after the grace, voters not asked yet", member: unsure, after: 30 * time.Second, want: StandingGood, asks: true},
		{name: "silent after the grace", member: silent, after: 30 * time.Second, want: StandingSilent},
		{name: "a longer grace", member: silent, fields: api.Fields{"spec.grace": `"1h"`}, after: time.Minute, want: StandingGood, wakes: true},
		{name: "pinned", member: silent, fields: api.Fields{"spec.partition": `"pinned"`}, after: time.Hour, want: StandingGood},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newFakeCluster()
			c.now, c.dead["a"] = start0.Add(tt.after), tt.member
			if tt.target != "" {
				c.objects[0] = fakeMachine("a", api.Fields{"lifecycle.target": tt.target})
			}
			o := podOn("a", "fd00::a:0:1", "")
			o.Fields = api.Effective("Pod", tt.fields)
			if got := machineStanding(o, "a", c); got != tt.want || (len(c.asked) > 0) != tt.asks || (len(c.wakes) > 0) != tt.wakes {
				t.Errorf("got %s, asks %v, wakes %v; want %s, %v, %v", got, c.asked, c.wakes, tt.want, tt.asks, tt.wakes)
			}
		})
	}
}

func TestDeriveMachine(t *testing.T) {
	tests := []struct {
		name   string
		change func(*fakeCluster)
		want   api.Fields
	}{
		{"another machine's prefix", func(*fakeCluster) {}, api.Fields{"cluster.routes.b": `["192.0.2.2","fd00::b:0:0/96"]`}},
		{"a pod at home needs no route of its own", func(c *fakeCluster) {
			c.objects = append(c.objects, podOn("b", "fd00::b:0:1", "b"))
		}, api.Fields{"cluster.routes.b": `["192.0.2.2","fd00::b:0:0/96"]`}},
		{"a pod that moved", func(c *fakeCluster) {
			c.objects = append(c.objects, podOn("b", "fd00::a:0:1", "b"))
		}, api.Fields{"cluster.routes.b": `["192.0.2.2","fd00::a:0:1/128","fd00::b:0:0/96"]`}},
		{"a pod that is about to move stays where it is connected", func(c *fakeCluster) {
			c.objects = append(c.objects, podOn("b", "fd00::a:0:1", "a"))
		}, api.Fields{"cluster.routes.b": `["192.0.2.2","fd00::b:0:0/96"]`}},
		{"a machine with a tunnel's end", func(c *fakeCluster) { c.tunnelled("b") }, api.Fields{"cluster.routes.b": `["192.0.2.2","fd00::b:0:0/96","wireguard:K=:51820"]`}},
		{"a machine that was removed", func(c *fakeCluster) { c.dead["b"] = lifecycle.Member{Removed: true} }, api.Fields{}},
		{"a silent machine keeps its route", func(c *fakeCluster) { c.dead["b"] = lifecycle.Member{Silent: true} }, api.Fields{"cluster.routes.b": `["192.0.2.2","fd00::b:0:0/96"]`}},
	}
	for _, tt := range tests {
		c := newFakeCluster()
		tt.change(c)
		if got := DeriveMachine(c.objects[0], c); !maps.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// What follows from the object and the cluster does not depend on any order, and
// leaves both alone.
func TestDeriveIsPure(t *testing.T) {
	c := newFakeCluster()
	c.objects = append(c.objects, fakeMachine("c", nil), podOn("b", "fd00::a:0:1", "b"), podOn("b", "fd00::a:0:2", "b"))
	before := DeriveMachine(c.objects[0], c)
	slices.Reverse(c.objects[1:])
	if after := DeriveMachine(c.objects[0], c); !maps.Equal(before, after) {
		t.Errorf("got %v, and in another order %v", before, after)
	}
}
