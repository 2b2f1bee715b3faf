package oci

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

func TestRunsInThePodsNetwork(t *testing.T) {
	f := newFixture(t)
	f.pod.NetNS = netns(t, "run")
	spec := server()
	spec.Env = map[string]string{"GREETING": "good day"}
	f.ensure(spec)
	f.await("server", "listening")
	body, err := f.get(8080, "/")
	if err != nil || body != "good day from web\n" {
		t.Errorf("the server answered %q, %v", body, err)
	}
}

func TestAnotherPeerAdoptsWhatRuns(t *testing.T) {
	f := newFixture(t)
	first := f.ensure(app())[0]
	if !alive(first.PID) {
		t.Fatalf("process %d does not run", first.PID)
	}
	second := f.again().ensure(app())[0]
	if second != first {
		t.Errorf("a second peer found %+v, not the first one's %+v", second, first)
	}
}

func TestOnlyTheChangedContainerRestarts(t *testing.T) {
	f := newFixture(t)
	side := app()
	side.Name = "side"
	before := f.ensure(app(), side)
	f.await("side", "waiting")
	side.Env = map[string]string{"MODE": "new"}
	after := f.ensure(app(), side)
	if after[0] != before[0] {
		t.Errorf("the unchanged container went from %+v to %+v", before[0], after[0])
	}
	if after[1].PID == before[1].PID || alive(before[1].PID) {
		t.Errorf("the changed container was %d and is %d; the old one still runs: %v", before[1].PID, after[1].PID, alive(before[1].PID))
	}
	if env, _ := f.output("side", "/bin/probe", "env"); !strings.Contains(env, "MODE=new") {
		t.Errorf("the changed container's environment is %q", env)
	}
}

func TestUnlistedContainerIsRemoved(t *testing.T) {
	f := newFixture(t)
	side := app()
	side.Name = "side"
	before := f.ensure(app(), side)
	f.await("side", "waiting")
	after := f.ensure(app())
	if after[0] != before[0] || alive(before[1].PID) {
		t.Errorf("after removing a container: kept %+v of %+v; the removed one runs: %v", after[0], before[0], alive(before[1].PID))
	}
}

// A successor that can't even be created must not cost the service.
func TestABrokenSuccessorLeavesTheOldOneRunning(t *testing.T) {
	f := newFixture(t)
	before := f.ensure(app())[0]
	broken := app()
	broken.Command = []string{"/bin/nothing"}
	_, err := f.Containers().Ensure(f.ctx, f.pod, []loops.ContainerSpec{broken})
	var step *lifecycle.Error
	if !errors.As(err, &step) || step.Code != api.StepFailed {
		t.Fatalf("Ensure returned %v", err)
	}
	if !strings.HasPrefix(step.Message, `container app of pod web can't start: exec: "/bin/nothing"`) {
		t.Errorf("the message is %q", step.Message)
	}
	if !alive(before.PID) {
		t.Error("the old container was stopped")
	}
	if after := f.ensure(app())[0]; after != before {
		t.Errorf("going back found %+v, not %+v", after, before)
	}
}

// The order of events in containerd is what a user's service depends on: the
// successor is created while the old one runs.
func TestSuccessorIsCreatedBeforeTheOldOneStops(t *testing.T) {
	f := newFixture(t)
	first := f.ensure(app())[0]
	f.await("app", "waiting")
	events := f.taskEvents()
	changed := app()
	changed.Env = map[string]string{"MODE": "new"}
	second := f.ensure(changed)[0]
	want := []string{
		"create " + second.ID, "exit " + first.ID, "start " + second.ID, "delete " + first.ID,
	}
	for _, w := range want {
		if got := f.nextEvent(events); got != w {
			t.Fatalf("event %q, want %q of %q", got, w, want)
		}
	}
}

func TestReplacedNetworkNamespaceReplacesTheContainer(t *testing.T) {
	f := newFixture(t)
	f.pod.NetNS = netns(t, "renew")
	before := f.ensure(server())[0]
	name := filepath.Base(f.pod.NetNS)
	run(t, "ip", "netns", "del", name)
	run(t, "ip", "netns", "add", name)
	run(t, "ip", "-n", name, "link", "set", "lo", "up")
	after := f.ensure(server())[0]
	if after.PID == before.PID {
		t.Fatal("the container stayed in a network namespace that is gone")
	}
	f.await("server", "listening")
	if _, err := f.get(8080, "/"); err != nil {
		t.Errorf("the new container does not serve: %v", err)
	}
}

func TestRerunRestartsInPlace(t *testing.T) {
	f := newFixture(t)
	before := f.ensure(app())[0]
	f.await("app", "waiting")
	f.pod.Rerun = "1"
	after := f.ensure(app())[0]
	if after.PID == before.PID || alive(before.PID) || !alive(after.PID) {
		t.Errorf("asked to restart, process %d became %d", before.PID, after.PID)
	}
	if after.Restarts != 0 {
		t.Errorf("a restart that was asked for counted: %d", after.Restarts)
	}
}

func TestFilesChangeInARunningContainer(t *testing.T) {
	f := newFixture(t)
	before := f.ensure(app())[0]
	f.pod.Hosts = "fd00::1 neighbour\n"
	after := f.ensure(app())[0]
	if after != before {
		t.Errorf("a change of the hosts file restarted the container")
	}
	text, _ := f.output("app", "/bin/probe", "cat", "/etc/hosts", "/etc/resolv.conf", "/etc/hostname")
	if want := "fd00::1 neighbour\nnameserver 127.0.0.1\nweb\n"; text != want {
		t.Errorf("the container sees %q, want %q", text, want)
	}
}

func TestSpecReachesTheProcess(t *testing.T) {
	f := newFixture(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("from the machine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := app()
	spec.User, spec.WorkDir = "nobody", "/tmp"
	spec.Env = map[string]string{"FROM": "spec"}
	spec.Mounts = []loops.Mount{{Source: dir, Target: "/data", ReadOnly: true}}
	f.ensure(spec)
	id, _ := f.output("app", "/bin/probe", "id")
	for _, want := range []string{"uid 65534 gid 65534 host web dir /tmp", "NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000"} {
		if !strings.Contains(id, want) {
			t.Errorf("the process is %q, which lacks %q", id, want)
		}
	}
	env, _ := f.output("app", "/bin/probe", "env")
	if !strings.Contains(env, "FROM=spec\n") || strings.Contains(env, "FROM=image") {
		t.Errorf("the environment is %q", env)
	}
	text, _ := f.output("app", "/bin/probe", "cat", "/data/file")
	if text != "from the machine\n" {
		t.Errorf("the mounted file reads %q", text)
	}
}

func TestCommandAndArguments(t *testing.T) {
	for _, c := range []struct {
		name          string
		command, args []string
		want          string
	}{
		{"args replace the default", nil, []string{"args", "one"}, "/bin/probe args one"},
		{"command replaces both", []string{"/bin/probe", "args"}, nil, "/bin/probe args"},
		{"both", []string{"/bin/probe", "args"}, []string{"two"}, "/bin/probe args two"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			exits := f.watch()
			spec := app(c.args...)
			spec.Command, spec.Restart = c.command, restartNever
			f.ensure(spec)
			if got := f.next(exits).LastLines; len(got) != 1 || got[0] != c.want {
				t.Errorf("it printed %q, want %q", got, c.want)
			}
		})
	}
}

func TestLimitsReachTheKernel(t *testing.T) {
	f := newFixture(t)
	spec := app()
	spec.CPU, spec.Memory = 250, 64<<20
	f.ensure(spec)
	have, err := f.podRecords(f.in(f.ctx), f.pod.ID)
	if err != nil || len(have) != 1 {
		t.Fatalf("records: %v, %v", have, err)
	}
	for _, c := range cgroupFiles(have[0].cgroup(f.cfg.Namespace)) {
		text, err := os.ReadFile(c.path)
		if err != nil || strings.TrimSpace(string(text)) != c.want {
			t.Errorf("%s holds %q, %v; want %q", c.path, text, err, c.want)
		}
	}
}

func TestRemoveLeavesNothing(t *testing.T) {
	f := newFixture(t)
	f.pod.NetNS = netns(t, "gone")
	spec := server()
	spec.Memory = 64 << 20
	statuses := f.ensure(spec, app())
	f.await("app", "waiting")
	f.await("server", "listening")
	if err := f.Containers().Remove(f.ctx, f.pod.ID); err != nil {
		t.Fatalf("Remove: %v", err)
	}
	for _, s := range statuses {
		if alive(s.PID) {
			t.Errorf("process %d still runs", s.PID)
		}
	}
	for _, left := range f.leftovers() {
		t.Errorf("Remove left %s", left)
	}
	if err := f.Containers().Remove(f.ctx, f.pod.ID); err != nil {
		t.Errorf("Remove, again: %v", err)
	}
}

func TestStubbornContainerIsKilledAfterItsGrace(t *testing.T) {
	f := newFixture(t)
	f.pod.Stop.Grace = 1 // ns: it has none
	status := f.ensure(app("stubborn"))[0]
	f.await("app", "ignoring")
	if err := f.Containers().Remove(f.ctx, f.pod.ID); err != nil || alive(status.PID) {
		t.Errorf("Remove returned %v, and the process runs: %v", err, alive(status.PID))
	}
}

func TestSweepRemovesWhatDoesNotBelong(t *testing.T) {
	f := newFixture(t)
	kept := app()
	kept.CPU, kept.Memory = 200, 64<<20
	f.ensure(kept)
	keep := f.pod.ID
	stray := *f
	stray.pod.ID = "5eed"
	stray.ensure(app())
	if err := f.Sweep(f.ctx, func(id string) bool { return id == keep }); err != nil {
		t.Fatalf("Sweep: %v", err)
	}
	pods, err := f.Pods(f.ctx)
	if err != nil || len(pods) != 1 || pods[0].ID != keep || len(pods[0].Containers) != 1 {
		t.Errorf("after the sweep there are %+v, %v", pods, err)
	}
	if pods[0].CPU != kept.CPU || pods[0].Memory != kept.Memory {
		t.Errorf("the pod was given %d and %d, want %d and %d", pods[0].CPU, pods[0].Memory, kept.CPU, kept.Memory)
	}
	if left := stray.leftovers(); len(left) > 0 {
		t.Errorf("the sweep left %q", left)
	}
}

func TestRefusesNamesThatAreNone(t *testing.T) {
	f := newBareFixture(t)
	f.pod.ID = "../../etc"
	if _, err := f.Containers().Ensure(f.ctx, f.pod, nil); err == nil {
		t.Error("Ensure took a path for a pod's ID")
	}
	if err := f.Containers().Remove(f.ctx, f.pod.ID); err == nil {
		t.Error("Remove took a path for a pod's ID")
	}
}

func TestMissingRuntimeIsNamed(t *testing.T) {
	f := newFixture(t)
	spec := app()
	spec.Runtime = "no-such-runtime"
	_, err := f.Containers().Ensure(f.ctx, f.pod, []loops.ContainerSpec{spec})
	var step *lifecycle.Error
	if !errors.As(err, &step) || step.Code != api.RuntimeUnavailable || !strings.Contains(step.Message, fmt.Sprintf("%q", spec.Runtime)) {
		t.Errorf("Ensure returned %v", err)
	}
}
