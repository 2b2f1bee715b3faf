package text

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	apiv1 "starling.dev/starling/api/v1"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the files in testdata")

// now is the time of every golden text.
var now = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)

func style() Style { return Style{Now: now} }

func msAgo(d time.Duration) int64 { return now.Add(-d).UnixMilli() }

// golden compares a text with its file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s is missing; look at this text, and make the file with -rewrite:\n%s", path, got)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

// podKey is the key of a pod in the default namespace.
func podKey(name string) *apiv1.Key {
	return &apiv1.Key{Kind: "Pod", Namespace: "default", Name: name}
}

func machineKey(name string) *apiv1.Key { return &apiv1.Key{Kind: "Machine", Name: name} }

// step is a step that finished some time ago.
func step(name string, requires []string, due, waited, worked time.Duration) *apiv1.StepStatus {
	started := now.Add(-due + waited)
	return &apiv1.StepStatus{
		Step: name, Loop: name, State: "done", Machine: "m1", Requires: requires, Attempt: 1,
		QueuedMs: msAgo(due), StartedMs: started.UnixMilli(), FinishedMs: started.Add(worked).UnixMilli(),
		SinceMs: started.Add(worked).UnixMilli(),
	}
}

func target(name, state string, requires ...string) *apiv1.StepStatus {
	return &apiv1.StepStatus{Step: name, Target: true, State: state, Requires: requires}
}

// readyPod is a pod that got ready five minutes ago: 1.9 s for the image is the long
// pole, since the network beside it took 60 ms.
func readyPod() *apiv1.ObjectState {
	const at = 5 * time.Minute
	return &apiv1.ObjectState{
		Goal: "ready",
		Object: &apiv1.Object{
			Key: podKey("web"), Id: "0a1b2c3d4e5f6071", Rev: "3", Verdict: "converged", Phase: "ready",
			CreatedMs: msAgo(time.Hour * 3), Creator: "user:alice",
			Fields: map[string]string{
				"spec.containers.app.image": `"localhost/hello:1"`, "spec.containers.app.args": `["--listen","[::]:8080"]`,
				"spec.containers.app.resources.memory": `"64Mi"`, "spec.require.disk": `"ssd"`,
			},
			Status: map[string]string{
				"status.machine": `"m1"`, "status.address": `"fd5a:1::7"`, "status.containers.app.restarts": "2",
				"status.running": "true", "status.ready": "true",
			},
		},
		Steps: []*apiv1.StepStatus{
			step("schedule", nil, at, 2*time.Millisecond, 0),
			step("admit", []string{"schedule"}, at-5*time.Millisecond, 1*time.Millisecond, 1*time.Millisecond),
			step("image", []string{"admit"}, at-8*time.Millisecond, 2*time.Millisecond, 1900*time.Millisecond),
			step("address", []string{"admit"}, at-8*time.Millisecond, 1*time.Millisecond, 1*time.Millisecond),
			step("storage", []string{"admit"}, at-8*time.Millisecond, 1*time.Millisecond, 0),
			step("network", []string{"address"}, at-12*time.Millisecond, 1*time.Millisecond, 60*time.Millisecond),
			step("container", []string{"image", "network", "storage"}, at-1912*time.Millisecond, 3*time.Millisecond, 240*time.Millisecond),
			target("stopped", "idle", "address", "storage"),
			target("running", "done", "container"),
			step("ready", []string{"running"}, at-2160*time.Millisecond, 1*time.Millisecond, 0),
		},
	}
}

// stuckPod waits for an image that can't be had; two people disagree about its memory.
func stuckPod() *apiv1.ObjectState {
	o := readyPod()
	o.Object.Verdict, o.Object.Phase, o.Object.Key = "failed", "image failed", podKey("shop")
	o.Object.Key.Namespace = "trade"
	delete(o.Object.Status, "status.address")
	o.Object.Conflicts = []*apiv1.Conflict{{
		Path:   "spec.containers.app.resources.memory",
		Claims: []string{`"64Mi" by user:alice (rev 3.a1b2)`, `"96Mi" by user:bob (rev 3.c3d4)`},
	}}
	for _, s := range o.Steps {
		switch s.Step {
		case "image":
			s.State, s.Attempt, s.Failures, s.Code = "retrying", 4, 3, "ImageNotFound"
			s.Message = "localhost/hello:9 is not on m1, and a localhost image is never pulled\nsecond line"
			s.UntilMs = now.Add(3200 * time.Millisecond).UnixMilli()
		case "network":
			s.State, s.FinishedMs, s.UntilMs = "running", 0, now.Add(20*time.Second).UnixMilli()
			s.StartedMs, s.SinceMs = msAgo(1500*time.Millisecond), msAgo(1500*time.Millisecond)
			s.QueuedMs = s.StartedMs - 40
		case "container":
			s.State, s.WaitsFor, s.Dirty, s.Machine, s.SinceMs = "waiting", "image", true, "", 0
		case "running":
			s.State, s.WaitsFor = "waiting", "container"
		case "ready":
			s.State, s.WaitsFor, s.Machine, s.SinceMs = "waiting", "running", "", 0
		}
	}
	return o
}

func readyMachine() *apiv1.ObjectState {
	return &apiv1.ObjectState{Goal: "ready", Object: &apiv1.Object{
		Key: machineKey("m1"), Rev: "2", Verdict: "converged", Phase: "ready", CreatedMs: msAgo(50 * time.Hour), Creator: "loop:machine",
		Status: map[string]string{
			"status.address": `"192.168.1.4"`, "status.capacity.cpu": `"4"`, "status.capacity.memory": `"16284Mi"`,
			"status.prefix": `"fd5a:1:0:1::/96"`, "status.runtime": `"containerd 1.6.20"`, "status.kernel": `"6.1.0"`,
		},
	}}
}

func partView() *apiv1.View {
	return &apiv1.View{
		Machine: "m1", TimeMs: now.UnixMilli(), Unreachable: []string{"m3", "m4"},
		SilentSinceMs: map[string]int64{"m3": msAgo(4 * time.Minute)},
	}
}
