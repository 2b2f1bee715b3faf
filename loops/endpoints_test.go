package loops_test

import (
	"testing"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

// servingPod is a pod that takes connections, as all machines see it.
func servingPod(t *testing.T, g *lifecycle.Graph) *lifecycle.Object {
	t.Helper()
	o := &lifecycle.Object{
		Key: api.Key{Kind: "Pod", Namespace: "shop", Name: "web"}, ID: "1",
		Fields: api.Effective("Pod", api.Fields{
			"spec.containers.app.image":      api.Str("localhost/hello:1"),
			"spec.containers.app.ports.http": "8080",
			"spec.labels.app":                api.Str("web"),
		}),
		Results: map[string]lifecycle.Result{
			"schedule": {Phase: lifecycle.PhaseDone, Executor: "m2", Outputs: api.Fields{"status.machine": api.Str("m1")}},
			"address":  {Phase: lifecycle.PhaseDone, Executor: "m1", Outputs: api.Fields{"status.address": api.Str("fd00::1")}},
			"ready":    {Phase: lifecycle.PhaseDone, Executor: "m1", Outputs: api.Fields{"status.ready": "true"}},
		},
	}
	o.Results["container"] = lifecycle.Result{
		Phase: lifecycle.PhaseDone, Executor: "m1", Reads: g.ReadsHash(o, "container", "m1"),
		Outputs: api.Fields{"status.running": "true"},
	}
	return o
}

// TestAPodLeavesItsServicesBeforeItStops: whatever will stop its containers takes it out
// at once, and nothing else does.
func TestAPodLeavesItsServicesBeforeItStops(t *testing.T) {
	g, err := lifecycle.NewGraph("Pod", loops.PodTargets(), loops.Pod())
	if err != nil {
		t.Fatal(err)
	}
	result := func(step string, change func(*lifecycle.Result)) func(*lifecycle.Object) {
		return func(o *lifecycle.Object) {
			r := o.Results[step]
			change(&r)
			o.Results[step] = r
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*lifecycle.Object)
		want   bool
	}{
		{"as it is", func(*lifecycle.Object) {}, true},
		{"a label is edited", func(o *lifecycle.Object) { o.Fields["spec.labels.app"] = api.Str("db") }, true},
		{"it is restarted", func(o *lifecycle.Object) { o.Fields["lifecycle.restart"] = "1" }, false},
		{"its arguments are edited", func(o *lifecycle.Object) { o.Fields["spec.containers.app.args"] = api.List("x") }, false},
		{"it is deleted", func(o *lifecycle.Object) { o.Deleted = true }, false},
		{"it is stopped", func(o *lifecycle.Object) { o.Fields["lifecycle.target"] = api.Str(api.TargetStopped) }, false},
		{"it moves", result("schedule", func(r *lifecycle.Result) { r.Outputs = api.Fields{"status.machine": api.Str("m3")} }), false},
		{"a container ended", result("container", func(r *lifecycle.Result) { r.Phase = lifecycle.PhaseFailed }), false},
		{"it starts again", result("container", func(r *lifecycle.Result) { r.Phase = lifecycle.PhaseStarted }), false},
		{"it is not ready", result("ready", func(r *lifecycle.Result) { r.Outputs = api.Fields{"status.ready": "false"} }), false},
		{"its readiness was another machine's", result("ready", func(r *lifecycle.Result) { r.Executor = "m2" }), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := servingPod(t, g)
			tt.change(o)
			p := loops.PodEntry(o, g)
			if p.Serving != tt.want {
				t.Errorf("it takes connections: %v, want %v", p.Serving, tt.want)
			}
			if p.Address.String() != "fd00::1" || p.Ports["http"] != 8080 {
				t.Errorf("its place is lost: %v", p)
			}
		})
	}
}
