package loops

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

func inputs(fields api.Fields) lifecycle.Inputs {
	return lifecycle.Inputs{
		Key: api.Key{Kind: "Pod", Namespace: "default", Name: "web"}, ID: "id", Rev: 3, Fields: fields,
		Previous: lifecycle.Outputs{}, Machine: "a", Attempt: 1,
	}
}

// failure is the error of a step in full, or the test ends.
func failure(t *testing.T, err error) *lifecycle.Error {
	t.Helper()
	var known *lifecycle.Error
	if !errors.As(err, &known) {
		t.Fatalf("got error %v, want one with a code", err)
	}
	return known
}

// portFields ask for port 80 of the machine.
var portFields = api.Fields{"spec.containers.app.ports.http": "8080", "spec.containers.app.hostPorts.http": "80"}

func TestScheduleSaysWhyNoMachineFits(t *testing.T) {
	ssd := fakeMachine("a", api.Fields{`spec.labels."example.com/disk"`: `"ssd"`, "spec.labels.zone": `"north"`})
	tests := []struct {
		name    string
		fields  api.Fields
		change  func(*fakeCluster)
		machine string
		code    string
		message string
	}{
		{name: "fits", machine: "a or b"},
		{name: "no machine", change: func(c *fakeCluster) { c.objects = nil }, code: api.NoMachineFits, message: "there is no machine in the cluster yet"},
		{
			name: "memory", fields: api.Fields{"spec.containers.app.resources.memory": `"9Gi"`}, code: api.NoMachineFits,
			message: "no machine fits: a memory: needs 9Gi, has 8Gi free of 8Gi; b memory: needs 9Gi, has 8Gi free of 8Gi",
		},
		{
			name: "what is reserved counts", fields: api.Fields{"spec.containers.app.resources.cpu": `"1"`, "spec.containers.log.resources.cpu": `"1"`}, machine: "b",
			change: func(c *fakeCluster) { c.reserved["a"] = lifecycle.Reservation{CPU: 2500} },
		},
		{name: "a label whose name holds dots", fields: api.Fields{`spec.require."example.com/disk"`: `"ssd"`}, change: func(c *fakeCluster) { c.objects[0] = ssd }, machine: "a"},
		{
			name: "a label that no machine has", fields: api.Fields{"spec.require.zone": `"nord"`}, change: func(c *fakeCluster) { c.objects[0] = ssd }, code: api.LabelMissing,
			message: "no machine has the label zone=nord; the nearest that exists is zone=north",
		},
		{name: "a label far from all", fields: api.Fields{"spec.require.gpu": `"yes"`}, code: api.LabelMissing, message: "no machine has the label gpu=yes; add it with `peer machine label NAME gpu=yes`"},
		{
			name: "states", code: api.NoMachineFits, message: "no machine fits: a is silent; b is drained",
			change: func(c *fakeCluster) {
				c.dead["a"] = lifecycle.Member{}
				c.objects[1] = fakeMachine("b", api.Fields{"lifecycle.target": `"drained"`})
			},
		},
		{name: "a machine that was removed counts for nothing", machine: "b", change: func(c *fakeCluster) { c.dead["a"] = lifecycle.Member{Alive: true, Removed: true} }},
		{
			name: "a host port is taken", machine: "b", fields: portFields,
			change: func(c *fakeCluster) { c.reserved["a"] = lifecycle.Reservation{Ports: map[uint16]int{80: 1}} },
		},
		{
			name: "a host port is taken everywhere", code: api.NoMachineFits,
			fields:  api.Fields{"spec.containers.app.ports.http": "8080", "spec.containers.app.hostPorts.http": "80"},
			message: "no machine fits: a host port 80 is taken by another pod; b port 80 is in use on the host by nginx (pid 7)",
			change: func(c *fakeCluster) {
				c.reserved["a"] = lifecycle.Reservation{Ports: map[uint16]int{80: 1, 81: 1}}
				c.objects[1].Results["inventory"].Outputs["status.listening.80"] = api.Str("nginx (pid 7)")
			},
		},
		{name: "kept for the machine itself", machine: "b", fields: api.Fields{"spec.containers.app.resources.cpu": `"3"`}, change: func(c *fakeCluster) {
			c.objects[0] = fakeMachine("a", api.Fields{"spec.reserve.cpu": `"2"`})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newFakeCluster()
			if tt.change != nil {
				tt.change(c)
			}
			out, err := schedule(c, inputs(tt.fields))
			if tt.code == "" {
				if got := out.String("status.machine"); err != nil || got == "" || !strings.Contains(tt.machine, got) {
					t.Fatalf("placed on %q (%v), want %s", got, err, tt.machine)
				}
				return
			}
			if e := failure(t, err); e.Code != tt.code || e.Message != tt.message || !e.Wait {
				t.Errorf("got %s, wait %v: %s\nwant %s: %s", e.Code, e.Wait, e.Message, tt.code, tt.message)
			}
		})
	}
}

// A pod stays where it is as long as that machine can have it, and a pod that fits
// nowhere stays as well.
func TestScheduleKeepsThePlace(t *testing.T) {
	for _, home := range []string{"a", "b"} {
		in := inputs(api.Fields{"machine.standing": api.Str(StandingGood)})
		in.Previous["status.machine"] = api.Str(home)
		if out, err := schedule(newFakeCluster(), in); err != nil || out.String("status.machine") != home {
			t.Errorf("it was on %s, and goes to %v (%v)", home, out, err)
		}
		in.Fields["spec.containers.app.resources.cpu"] = `"9"`
		_, err := schedule(newFakeCluster(), in)
		if e := failure(t, err); e.Outputs.String("status.machine") != home || len(e.Outputs.Keys("status.refused")) != 2 {
			t.Errorf("it fits nowhere, was on %s, and the outputs are %v", home, e.Outputs)
		}
	}
}

// On a machine that is drained a pod goes on until another one has room; one that is silent or
// removed has it no more.
func TestScheduleOfAPodThatFitsNowhereElse(t *testing.T) {
	for standing, want := range map[string]string{StandingDrained: "a", StandingSilent: "", StandingRemoved: ""} {
		in := inputs(api.Fields{"machine.standing": api.Str(standing), "spec.containers.app.resources.cpu": `"9"`})
		in.Previous["status.machine"] = `"a"`
		_, err := schedule(newFakeCluster(), in)
		if e := failure(t, err); e.Outputs.String("status.machine") != want {
			t.Errorf("its machine is %s, and it is on %q, want %q", standing, e.Outputs.String("status.machine"), want)
		}
	}
}

func TestScheduleLeavesABadMachine(t *testing.T) {
	for _, standing := range []string{StandingDrained, StandingSilent, StandingRemoved} {
		in := inputs(api.Fields{"machine.standing": api.Str(standing)})
		in.Previous["status.machine"] = `"a"`
		if out, err := schedule(newFakeCluster(), in); err != nil || out.String("status.machine") != "b" {
			t.Errorf("its machine is %s, and it goes to %v (%v)", standing, out, err)
		}
	}
}

// A machine that refused the pod for a program on its port is there again as soon as the
// program is gone.
func TestScheduleForgetsARefusalForAPortThatIsFree(t *testing.T) {
	c := newFakeCluster()
	c.objects = c.objects[:1]
	said := refusal{rev: 3, at: start0, reason: "refused: " + portInUse(80, "nginx (pid 7)")}.String()
	fields := api.Fields{"status.refusals.a": api.Str(said)}
	maps.Copy(fields, portFields)
	program := c.objects[0].Results["inventory"].Outputs
	program["status.listening.80"] = api.Str("nginx (pid 7)")
	if _, err := schedule(c, inputs(fields)); err == nil {
		t.Error("a pod is placed where a program has its port")
	}
	delete(program, "status.listening.80")
	if out, err := schedule(c, inputs(fields)); err != nil || out.String("status.machine") != "a" {
		t.Errorf("the program has ended: %v, %v", out, err)
	}
}

// A machine that refused the pod is left out for a while, in the rev that it refused.
func TestScheduleHeedsRefusals(t *testing.T) {
	said := refusal{rev: 3, at: start0, reason: "refused: memory"}.String()
	for _, tt := range []struct {
		name string
		rev  uint64
		at   time.Duration
		want string
	}{
		{"now", 3, time.Second, "b"},
		{"after its time", 3, refusalTTL, "a"},
		{"in the next rev", 4, time.Second, "a"},
	} {
		c := newFakeCluster()
		c.now = start0.Add(tt.at)
		in := inputs(api.Fields{"status.refusals.a": api.Str(said)})
		in.Rev, in.Previous["status.machine"] = tt.rev, `"a"`
		if out, err := schedule(c, in); err != nil || out.String("status.machine") != tt.want {
			t.Errorf("%s: placed by %v (%v), want %s", tt.name, out, err, tt.want)
		}
	}
}

func TestRefusalsReadBack(t *testing.T) {
	r := refusal{rev: 12, at: start0, reason: "refused: cpu: needs 2, has 1 free of 4"}
	if got, ok := parseRefusal(r.String()); !ok || got != r {
		t.Errorf("%q read as %+v, %v", r, got, ok)
	}
	for _, bad := range []string{"", "refused", "rev x at y: z", "rev 1 at yesterday: z", "rev 1: z", "rev -1 at 2026-01-01T00:00:00Z: z"} {
		if got, ok := parseRefusal(bad); ok {
			t.Errorf("%q read as %+v", bad, got)
		}
	}
}

// The machine is the final judge: it counts what it promised, not what others think.
func TestAdmit(t *testing.T) {
	c := newFakeCluster()
	c.held = lifecycle.Reservation{CPU: 3000, Memory: 7 << 30}
	fields := api.Fields{
		"machine.capacity.cpu": `"4"`, "machine.capacity.memory": `"8Gi"`,
		"spec.containers.app.resources.cpu": `"500m"`, "spec.containers.app.resources.memory": `"512Mi"`,
		"spec.containers.log.resources.cpu": `"500m"`, "spec.containers.log.resources.memory": `"512Mi"`,
	}
	in := inputs(fields)
	in.Previous["status.refusals.b"] = api.Str(refusal{rev: 3, at: start0, reason: "refused: cpu"}.String())
	in.Previous["status.refusals.c"] = api.Str(refusal{rev: 2, at: start0, reason: "refused: cpu"}.String())
	out, err := admit(c, in)
	want := lifecycle.Outputs{
		"status.admission.machine": `"a"`, "status.admission.cpu": `"1"`, "status.admission.memory": `"1Gi"`,
		"status.refusals.b": in.Previous["status.refusals.b"],
	}
	if err != nil || !maps.Equal(out, want) {
		t.Fatalf("got %v (%v), want %v: it fits exactly, and only this rev's refusals stay", out, err, want)
	}
	c.held.Memory++
	_, err = admit(c, in)
	e := failure(t, err)
	if e.Code != api.Refused || !e.Wait || e.Message != "a refused: memory: needs 1Gi, has 1023Mi free of 8Gi" {
		t.Errorf("got %s: %s", e.Code, e.Message)
	}
	if r, ok := parseRefusal(e.Outputs.String("status.refusals.a")); !ok || r.rev != 3 || len(e.Outputs) != 2 {
		t.Errorf("fed back: %v", e.Outputs)
	}
}

// A host port is admitted once, whatever the scheduler of another view thought.
func TestAdmitHostPorts(t *testing.T) {
	c := newFakeCluster()
	c.held = lifecycle.Reservation{Ports: map[uint16]int{80: 1}}
	_, err := admit(c, inputs(portFields))
	if e := failure(t, err); e.Code != api.Refused || e.Message != "a refused: host port 80 is taken by another pod" {
		t.Errorf("got %s: %s", e.Code, e.Message)
	}
	if _, err := admit(c, inputs(api.Fields{"spec.containers.app.ports.http": "8080", "spec.containers.app.hostPorts.http": "81"})); err != nil {
		t.Errorf("another port: %v", err)
	}
}

func TestDraw(t *testing.T) {
	c := newFakeCluster()
	_, err := draw(c, inputs(api.Fields{}))
	if e := failure(t, err); !e.Wait || !strings.Contains(e.Message, "a has no prefix for pods yet") {
		t.Errorf("without a prefix: %v", e)
	}
	in := inputs(api.Fields{"machine.prefix": `"fd00::a:0:0/96"`})
	seen := map[string]bool{}
	for range 100 {
		out, err := draw(c, in)
		if err != nil || !strings.HasPrefix(out.String("status.address"), "fd00::a:") {
			t.Fatalf("drew %v (%v)", out, err)
		}
		seen[out["status.address"]] = true
	}
	if len(seen) < 99 {
		t.Errorf("100 draws gave %d addresses", len(seen))
	}
	in.Previous["status.address"] = `"fd00::b:0:7"`
	if out, err := draw(c, in); err != nil || out["status.address"] != `"fd00::b:0:7"` {
		t.Errorf("a pod that moved drew %v (%v), want its address for life", out, err)
	}
	// On a LAN it keeps its address too, until the LAN has another prefix.
	in.Fields["machine.prefix"], in.Previous["status.address"] = `"2001:db8:1:2::/64"`, `"2001:db8:1:2:3:4:5:6"`
	if out, err := draw(c, in); err != nil || out["status.address"] != `"2001:db8:1:2:3:4:5:6"` {
		t.Errorf("on the same LAN: drew %v (%v)", out, err)
	}
	in.Fields["machine.prefix"] = `"2001:db8:9:9::/64"`
	if out, err := draw(c, in); err != nil || !strings.HasPrefix(out.String("status.address"), "2001:db8:9:9:") {
		t.Errorf("on a renumbered LAN: drew %v (%v)", out, err)
	}
}

// In mode cloud a pod has the address that the cloud's loop says, whatever it had.
func TestDelegatedAddress(t *testing.T) {
	c := newFakeCluster()
	for given, want := range map[string]string{
		"2001:db8::5": "", "": "no loop called cloud", "10.0.0.1": "no IPv6 address that others can reach", "fe80::1": "no IPv6 address that others can reach", "nonsense": "no IPv6",
	} {
		in := inputs(api.Fields{"machine.prefix": `"fd00::a:0:0/96"`, "machine.delegated": "true"})
		in.Previous = lifecycle.Outputs{"status.address": `"2001:db8::1"`}
		if given != "" {
			in.Fields["machine.allocated"] = api.Str(given)
		}
		out, err := draw(c, in)
		switch {
		case want == "" && (err != nil || out.String("status.address") != given):
			t.Errorf("%s: got %v, %v", given, out, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, %v; want an error with %q", given, out, err, want)
		}
	}
	// The pod learns of it only where the machine says that this is the mode.
	o := podOn("a", "", "")
	o.Results["cloud:allocate"] = lifecycle.Result{Phase: lifecycle.PhaseDone, Outputs: lifecycle.Outputs{"status.loops.cloud.address": `"2001:db8::5"`}}
	if f := DerivePod(o, c); f.Has("machine.allocated") || f.Has("machine.delegated") {
		t.Errorf("in mode routed: %v", f)
	}
	c.objects[0].Results["inventory"] = lifecycle.Result{Phase: lifecycle.PhaseDone, Outputs: lifecycle.Outputs{"status.delegated": "true"}}
	if f := DerivePod(o, c); f.String("machine.allocated") != "2001:db8::5" || !f.Bool("machine.delegated") {
		t.Errorf("in mode cloud: %v", f)
	}
}

func TestAfterExit(t *testing.T) {
	exit := Exit{Container: "app", Code: 2, LastLines: []string{"one", "two"}}
	oom, clean := exit, Exit{Container: "app"}
	oom.OOM = true
	for _, tt := range []struct {
		restart string
		exit    Exit
		want    string
	}{
		{api.RestartAlways, clean, "ContainerExited container app exited with code 0"},
		{api.RestartAlways, exit, "ContainerExited container app exited with code 2; its last lines:\none\ntwo"},
		{api.RestartOnFailure, exit, "ContainerExited container app exited with code 2; its last lines:\none\ntwo"},
		{api.RestartOnFailure, clean, "fine"},
		{api.RestartOnFailure, Exit{Container: "app", OOM: true}, "OutOfMemory container app was killed: it used more memory than its limit"},
		{api.RestartNever, oom, "fine"},
		{api.RestartAlways, oom, "OutOfMemory container app was killed: it used more memory than its limit; its last lines:\none\ntwo"},
	} {
		got := "fine"
		if failed, code, message := AfterExit(tt.restart, tt.exit); failed {
			got = code + " " + message
		}
		if got != tt.want {
			t.Errorf("%s, %+v: %q, want %q", tt.restart, tt.exit, got, tt.want)
		}
	}
}

// The built-in lifecycles compile, each field that a loop writes is its own in the
// kind's table, and the proof of convergence holds for both together.
func TestLifecyclesMatchTheTables(t *testing.T) {
	var graphs []*lifecycle.Graph
	for _, kind := range []string{"Pod", "Machine"} {
		l := newLife(t, kind, whole(kind))
		graphs = append(graphs, l.g)
		for _, n := range l.g.Describe().Nodes {
			for _, path := range n.Outputs {
				if owner := ownerBelow(t, kind, path); owner != n.Loop {
					t.Errorf("%s.%s is written by loop %s, and the table says that %s owns it", kind, path, n.Loop, owner)
				}
			}
		}
	}
	proof, err := lifecycle.Verify(graphs...)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range proof.Kinds {
		if len(d.Unwritten) > 0 {
			t.Errorf("%s: %v, which nothing writes", d.Kind, d.Unwritten)
		}
	}
}

// ownerBelow is the one owner of all fields at or below a path.
func ownerBelow(t *testing.T, kind, path string) string {
	t.Helper()
	k, _ := api.KindByName(kind)
	var owners []string
	for _, f := range k.Fields {
		if api.Overlap(path, f.Path) {
			owners = append(owners, f.Owner)
		}
	}
	slices.Sort(owners)
	if owners = slices.Compact(owners); len(owners) != 1 {
		return fmt.Sprintf("nobody alone (%q)", owners)
	}
	return owners[0]
}
