package loops

import (
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// BenchmarkEvaluateAtRest is what looking at one converged pod costs.
func BenchmarkEvaluateAtRest(b *testing.B) {
	g, o, env := restingPod(b)
	b.ReportAllocs()
	for b.Loop() {
		if e := g.Evaluate(o, "ready", env); e.Verdict != lifecycle.Converged {
			b.Fatalf("verdict %s", e.Verdict)
		}
	}
}

// BenchmarkEvaluateEdited is what finding the step that an edit re-runs costs.
func BenchmarkEvaluateEdited(b *testing.B) {
	g, o, env := restingPod(b)
	edited := *o
	edited.Fields = o.Fields.Clone()
	edited.Fields["spec.containers.app.args"] = `["other"]`
	b.ReportAllocs()
	for b.Loop() {
		if e := g.Evaluate(&edited, "ready", env); len(e.Run) != 1 {
			b.Fatalf("%d steps run", len(e.Run))
		}
	}
}

// BenchmarkPlan is what foretelling an edit that moves nothing costs.
func BenchmarkPlan(b *testing.B) {
	l := newLife(b, "Pod", whole("Pod"))
	l.settle()
	before := l.o
	edited := whole("Pod")
	edited["spec.containers.x.args"] = `["other"]`
	l.edit(edited)
	env := l.env()
	var known lifecycle.Memo // as of an object at hand
	l.g.Reevaluate(&lifecycle.Evaluation{}, &known, l.derived(before), "ready", env)
	b.ReportAllocs()
	for b.Loop() {
		if steps := l.g.Plan(&known, before, l.o, "ready", env, l.cluster, l.derived); len(steps) != 8 {
			b.Fatalf("%d steps", len(steps))
		}
	}
}

// restingPod is a pod with two containers whose every step is done.
func restingPod(tb testing.TB) (*lifecycle.Graph, *lifecycle.Object, lifecycle.Env) {
	g, err := lifecycle.NewGraph("Pod", PodTargets(), Pod())
	if err != nil {
		tb.Fatal(err)
	}
	fields := api.Effective("Pod", api.Fields{
		"spec.containers.app.image": `"localhost/hello:1"`, "spec.containers.app.args": `["--listen","[::]:8080"]`,
		"spec.containers.app.env.GREETING": `"hello"`, "spec.containers.app.ports.http": "8080",
		"spec.containers.app.resources.cpu": `"500m"`, "spec.containers.app.resources.memory": `"64Mi"`,
		"spec.containers.log.image": `"localhost/log:1"`, "spec.containers.log.resources.memory": `"16Mi"`,
		"spec.require.disk": `"ssd"`, "spec.labels.app": `"web"`,
	})
	fields["machine.standing"], fields["machine.prefix"] = `"good"`, `"fd00::/96"`
	fields["machine.capacity.cpu"], fields["machine.capacity.memory"] = `"4"`, `"8Gi"`
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	o := &lifecycle.Object{Key: api.Key{Kind: "Pod", Namespace: "default", Name: "web"}, ID: "0102030405060708", Rev: 3, Fields: fields, Results: map[string]lifecycle.Result{}}
	outputs := map[string]lifecycle.Outputs{
		"schedule":  {"status.machine": `"a"`},
		"admit":     {"status.admission.machine": `"a"`, "status.admission.cpu": `"500m"`, "status.admission.memory": `"80Mi"`},
		"image":     {"status.images.app": `"sha256:1"`, "status.images.log": `"sha256:2"`},
		"address":   {"status.address": `"fd00::1"`},
		"network":   {"status.network.namespace": `"/run/netns/x"`},
		"storage":   {},
		"container": {"status.containers.app.pid": "7", "status.containers.log.pid": "8", "status.running": "true"},
		"ready":     {"status.ready": "true"},
	}
	for step, out := range outputs {
		o.Results[step] = lifecycle.Result{Outputs: out}
	}
	for step, r := range o.Results {
		r.Attempt, r.Phase, r.Executor, r.Finished = 1, lifecycle.PhaseDone, "a", now
		r.Reads = g.ReadsHash(o, step, "a")
		o.Results[step] = r
	}
	never := func(string) bool { return false }
	env := lifecycle.Env{
		Self: "a", Executor: "a", Machine: "a", Now: now,
		Member:  func(string) lifecycle.Member { return lifecycle.Member{Alive: true} },
		Removed: never, Adopt: never, Effects: never, MayRetry: never,
		Running: func(string) (lifecycle.Running, bool) { return lifecycle.Running{}, false },
	}
	return g, o, env
}
