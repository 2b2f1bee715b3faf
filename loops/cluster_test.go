package loops

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

var start0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// fakeCluster is what loops see in tests: two machines, and whatever else is put in.
type fakeCluster struct {
	objects  []*lifecycle.Object
	dead     map[string]lifecycle.Member
	reserved map[string]lifecycle.Reservation
	held     lifecycle.Reservation
	now      time.Time
	random   uint64
	asked    []string
	wakes    []time.Time
	health   map[string]Health
}

var (
	_ Surroundings = (*fakeCluster)(nil)
	_ Prober       = (*fakeCluster)(nil)
)

func newFakeCluster() *fakeCluster {
	return &fakeCluster{
		objects: []*lifecycle.Object{fakeMachine("a", nil), fakeMachine("b", nil)},
		dead:    map[string]lifecycle.Member{}, reserved: map[string]lifecycle.Reservation{}, health: map[string]Health{}, now: start0,
	}
}

// fakeMachine is a machine that is ready: 4 cores, 8 Gi.
func fakeMachine(name string, fields api.Fields) *lifecycle.Object {
	prefixes := map[string]string{"a": "fd00::a:0:0/96", "b": "fd00::b:0:0/96", "c": "fd00::c:0:0/96"}
	status := lifecycle.Outputs{
		"status.capacity.cpu": `"4"`, "status.capacity.memory": `"8Gi"`, "status.ready": "true",
		"status.prefix": api.Str(prefixes[name]), "status.address": api.Str("192.0.2." + fmt.Sprint(name[0]-'a'+1)),
	}
	return &lifecycle.Object{
		Key: api.Key{Kind: "Machine", Name: name}, ID: "machine-" + name, Rev: 1, Fields: api.Effective("Machine", fields),
		Results: map[string]lifecycle.Result{"inventory": {Outputs: status, Phase: lifecycle.PhaseDone, Executor: name}},
	}
}

func (c *fakeCluster) Objects(kind string) []*lifecycle.Object {
	return slices.DeleteFunc(slices.Clone(c.objects), func(o *lifecycle.Object) bool { return o.Key.Kind != kind })
}

func (c *fakeCluster) Object(key api.Key) (*lifecycle.Object, bool) {
	for _, o := range c.objects {
		if o.Key == key {
			return o, true
		}
	}
	return nil, false
}

func (c *fakeCluster) Member(name string) lifecycle.Member {
	if m, ok := c.dead[name]; ok {
		return m
	}
	return lifecycle.Member{Alive: true}
}

func (c *fakeCluster) Belongs(name string) bool { return !c.Member(name).Removed }

func (c *fakeCluster) Reserved(name string, _ api.Key) lifecycle.Reservation { return c.reserved[name] }

func (c *fakeCluster) Placed(string, api.Key) int { return 0 }

func (c *fakeCluster) Siblings(api.Key) map[string]int { return nil }

func (c *fakeCluster) Held(string) lifecycle.Reservation { return c.held }

func (c *fakeCluster) Now() time.Time { return c.now }

func (c *fakeCluster) Random() uint64 { c.random++; return c.random * 0x9E3779B97F4A7C15 }

func (c *fakeCluster) Children(*lifecycle.Object, string) []ChildState { return nil }

func (c *fakeCluster) Routes(except string) api.Fields {
	return RoutesBut(RoutesOf(c, c.Objects("Pod")), except)
}

func (c *fakeCluster) Ask(name string) { c.asked = append(c.asked, name) }

func (c *fakeCluster) WakeAt(t time.Time) { c.wakes = append(c.wakes, t) }

func (c *fakeCluster) Health(_, container string) (Health, bool) {
	h, ok := c.health[container]
	return h, ok
}

// fakeHost does at once what steps ask for, and runs containers in memory: one that
// differs from what runs gets another process.
type fakeHost struct {
	fails map[string]error // by what is to fail: "image", "network", "containers", …
	runs  map[string]string
	pids  map[string]uint32
	exits map[string]bool
	seen  []ContainerSpec
	pod   PodSandbox
	net   PodNetwork
	plan  RoutePlan
}

func newFakeHost() *fakeHost {
	return &fakeHost{fails: map[string]error{}, runs: map[string]string{}, pids: map[string]uint32{}, exits: map[string]bool{}}
}

func (h *fakeHost) Images() Images         { return fakeImages{h} }
func (h *fakeHost) Containers() Containers { return fakeContainers{h} }
func (h *fakeHost) Network() Network       { return fakeNetwork{h} }
func (h *fakeHost) Volumes() Volumes       { return fakeVolumes{h} }
func (h *fakeHost) Facts() Facts           { return fakeFacts{h} }

type (
	fakeImages     struct{ *fakeHost }
	fakeContainers struct{ *fakeHost }
	fakeNetwork    struct{ *fakeHost }
	fakeVolumes    struct{ *fakeHost }
	fakeFacts      struct{ *fakeHost }
)

func (h fakeImages) Ensure(_ context.Context, ref string) (string, error) {
	return "sha256:" + ref, h.fails["image"]
}

func (h fakeContainers) Ensure(_ context.Context, pod PodSandbox, specs []ContainerSpec) ([]ContainerStatus, error) {
	h.fakeHost.seen, h.fakeHost.pod = specs, pod
	if err := h.fails["containers"]; err != nil {
		return nil, err
	}
	var list []ContainerStatus
	for _, s := range specs {
		if text := fmt.Sprintf("%+v %+v", s, pod); h.runs[s.Name] != text {
			h.runs[s.Name] = text
			h.pids[s.Name] += 10
		}
		list = append(list, ContainerStatus{Name: s.Name, ID: "c-" + s.Name, PID: h.pids[s.Name], Exited: h.exits[s.Name], ExitCode: 3, StartedAt: start0})
	}
	return list, nil
}

func (h fakeContainers) Remove(context.Context, string) error { return h.fails["remove"] }

func (h fakeNetwork) Attach(_ context.Context, pod PodNetwork) (string, error) {
	h.net = pod
	return "/run/netns/" + pod.ID, h.fails["network"]
}

func (h fakeNetwork) Detach(context.Context, string) error { return h.fails["network"] }

func (h fakeNetwork) Routes(_ context.Context, plan RoutePlan) error {
	h.fakeHost.plan = plan
	return h.fails["network"]
}

func (h fakeVolumes) Ensure(_ context.Context, id, name string) (string, error) {
	return "/volumes/" + id + "/" + name, h.fails["volumes"]
}

func (h fakeVolumes) Release(context.Context, string) error { return h.fails["volumes"] }

func (h fakeFacts) Probe(context.Context) (MachineFacts, error) {
	return MachineFacts{CPU: 4000, Memory: 8 << 30, OS: "Debian 12", Kernel: "6.1", Architecture: "amd64", Version: "1", Level: 1, Address: "192.0.2.1"}, h.fails["facts"]
}

func (h fakeFacts) RuntimeReady(context.Context) (string, error) {
	return "containerd 1.6.20", h.fails["facts"]
}

func (h fakeFacts) ClusterPrefix() netip.Prefix { return netip.MustParsePrefix("fd00::/48") }

func (h fakeFacts) OwnPrefix() netip.Prefix { return netip.MustParsePrefix("fd00::a:0:0/96") }

// life runs the lifecycle of one object to its rest on machine a, as a peer does.
type life struct {
	tb      testing.TB
	g       *lifecycle.Graph
	o       *lifecycle.Object
	cluster *fakeCluster
	host    *fakeHost
	derive  func(*lifecycle.Object, Surroundings) api.Fields
	ran     []string
}

func newLife(tb testing.TB, kind string, fields api.Fields) *life {
	l := &life{tb: tb, cluster: newFakeCluster(), host: newFakeHost(), derive: DerivePod}
	targets, all := PodTargets(), Pod()
	l.o = &lifecycle.Object{Key: api.Key{Kind: kind, Namespace: "default", Name: "web"}, ID: "id", Rev: 1, Results: map[string]lifecycle.Result{}}
	if kind == "Machine" {
		targets, all, l.derive = MachineTargets(), Machine(), DeriveMachine
		l.o.Key = api.Key{Kind: kind, Name: "a"}
	}
	var err error
	if l.g, err = lifecycle.NewGraph(kind, targets, all); err != nil {
		tb.Fatal(err)
	}
	l.edit(fields)
	return l
}

func (l *life) edit(fields api.Fields) {
	next := *l.o
	next.Fields = api.Effective(l.o.Key.Kind, fields)
	next.Rev++
	l.o = &next
}

func (l *life) goal() string { return l.o.Fields.String("lifecycle.target") }

func (l *life) derived(o *lifecycle.Object) *lifecycle.Object {
	next := *o
	next.Derived = l.derive(o, l.cluster)
	return &next
}

func (l *life) env() lifecycle.Env {
	machine := l.o.Status().String("status.machine")
	if l.o.Key.Kind == "Machine" {
		machine = "a"
	}
	never := func(string) bool { return false }
	return lifecycle.Env{
		Self: "a", Executor: "a", Machine: machine, Now: l.cluster.now, Member: l.cluster.Member, Removed: never,
		Running: func(string) (lifecycle.Running, bool) { return lifecycle.Running{}, false },
		Adopt:   never, Effects: never, MayRetry: never,
	}
}

// settle carries out evaluations until nothing is to be run here.
func (l *life) settle() lifecycle.Evaluation {
	for range 50 {
		o := l.derived(l.o)
		e := l.g.Evaluate(o, l.goal(), l.env())
		if len(e.Run) == 0 {
			return e
		}
		l.carryOut(o, e.Run[0])
	}
	l.tb.Fatalf("no rest; ran %v", l.ran)
	return lifecycle.Evaluation{}
}

func (l *life) carryOut(o *lifecycle.Object, run lifecycle.Run) {
	name := run.Step.Name
	r := lifecycle.Result{Attempt: o.Results[name].Attempt + 1, Phase: lifecycle.PhaseDone, Executor: "a", Reads: run.Reads, Finished: l.cluster.now}
	var err error
	switch {
	case run.Undo:
		r.Phase = lifecycle.PhaseUndone
		if run.Step.Undo != nil {
			err = run.Step.Undo(context.Background(), l.host, run.Inputs)
			l.ran = append(l.ran, "undo "+name)
		}
	case run.Step.Decide != nil:
		r.Outputs, err = run.Step.Decide(l.cluster, run.Inputs)
		l.ran = append(l.ran, name)
	default:
		r.Outputs, err = run.Step.Do(context.Background(), l.host, run.Inputs)
		l.ran = append(l.ran, name)
	}
	var known *lifecycle.Error
	if err != nil {
		r.Phase, r.Message, r.RetryAt = lifecycle.PhaseFailed, err.Error(), l.cluster.now.Add(time.Hour)
	}
	if errors.As(err, &known) {
		r.Code, r.Outputs = known.Code, known.Outputs
	}
	next := *l.o
	next.Results = maps.Clone(l.o.Results)
	next.Results[name] = r
	l.o = &next
	if run.Step.Decide != nil && !run.Undo && err == nil { // it may read what follows from its own decision
		r.Reads = l.g.ReadsHash(l.derived(l.o), name, l.env().Machine)
		next.Results[name] = r
	}
}

// takeRan returns what ran since it was last asked.
func (l *life) takeRan() []string {
	ran := l.ran
	l.ran = nil
	return ran
}
