package oci

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"starling.dev/starling/loops"
)

func TestRecordIsReadBackFromItsLabels(t *testing.T) {
	want := record{
		ID: "abc-app-3", PodID: "abcdef", PodNamespace: "shop", PodName: "web", Container: "app",
		Generation: 3, SpecHash: "5eed", Digest: "sha256:1", Restarts: 2,
		Stop: loops.StopSpec{Signal: "SIGINT", Grace: 90 * time.Second}, Given: givenLabel{500, 64 << 20},
	}
	got, ok := parseRecord(want.ID, want.labels())
	if !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("read back %+v, want %+v", got, want)
	}
	labels := want.labels()
	labels[labelStarted], labels[labelStopping] = "2026-01-02T03:04:05.6Z", "true"
	labels[labelExit] = `{"code":137,"oom":true,"at":"2026-01-02T03:05:00Z"}`
	got, _ = parseRecord(want.ID, labels)
	if got.Started.Year() != 2026 || !got.Stopping || got.Exit == nil || got.Exit.Code != 137 || !got.Exit.OOM {
		t.Errorf("read back %+v", got)
	}
	if _, ok := parseRecord("other", map[string]string{"app": "something else's"}); ok {
		t.Error("another program's container was taken for one of ours")
	}
}

func TestContainerIDFitsContainerd(t *testing.T) {
	if got := containerID("0123456789abcdef", "app", 12); got != "0123456789ab-app-12" {
		t.Errorf("containerID = %q", got)
	}
	long := strings.Repeat("a", 63)
	one, other := containerID("0123456789abcdef", long, 1<<63), containerID("0123456789abcdef", long[:62]+"b", 1<<63)
	if len(one) > 76 || one == other {
		t.Errorf("containerID of long names: %q (%d bytes), %q", one, len(one), other)
	}
}

// The hash is part of what running containers carry: if it changed for a given spec,
// an upgrade of the peer would restart every container.
func TestSpecHashIsStable(t *testing.T) {
	pod := loops.PodSandbox{ID: "1", NetNS: "/run/netns/x", Hostname: "web"}
	spec := loops.ContainerSpec{
		Name: "app", Image: "localhost/hello:1", Digest: "sha256:1", Args: []string{"a"},
		Env: map[string]string{"B": "2", "A": "1"}, CPU: 500, Memory: 1 << 20,
		Mounts: []loops.Mount{{Source: "/s", Target: "/t", ReadOnly: true}},
	}
	base := specHash(pod, spec)
	if want := "8a97255e4dc2ffadbed8c83bf27aca89"; base != want {
		t.Errorf("the hash is %q, and was %q in the first release", base, want)
	}
	same := spec
	same.Restart, same.Ports, same.Image = "never", map[string]uint16{"http": 80}, "localhost/hello:renamed"
	other := pod
	other.Hosts, other.Resolv, other.Stop.Signal = "x", "y", "SIGINT"
	if specHash(other, same) != base {
		t.Error("a change that takes effect without a restart changes the hash")
	}
	for _, field := range []string{"Digest", "Command", "Args", "WorkDir", "User", "CPU", "Memory", "Mounts", "Runtime", "Env"} {
		changed := spec
		reflect.ValueOf(&changed).Elem().FieldByName(field).SetZero()
		if reflect.DeepEqual(changed, spec) {
			changed.Command, changed.WorkDir, changed.User, changed.Runtime = []string{field}, field, field, field
		}
		if specHash(pod, changed) == base {
			t.Errorf("a change of %s does not change the hash", field)
		}
	}
}

func TestResources(t *testing.T) {
	r := resources(loops.ContainerSpec{CPU: 500, Memory: 1 << 30}, true)
	if *r.CPU.Quota != 50_000 || *r.CPU.Period != 100_000 || *r.CPU.Shares != 512 || *r.Memory.Limit != 1<<30 || *r.Memory.Swap != 1<<30 {
		t.Errorf("half a core and 1 GiB are %+v, %+v", r.CPU, r.Memory)
	}
	if r = resources(loops.ContainerSpec{CPU: 1}, true); *r.CPU.Quota != 1000 || *r.CPU.Shares != 2 || r.Memory != nil {
		t.Errorf("the least of a core is %+v", r.CPU)
	}
	if r = resources(loops.ContainerSpec{Memory: 1 << 20}, false); r.CPU != nil || r.Memory.Swap != nil {
		t.Errorf("memory alone, without swap accounting, is %+v", r)
	}
}

func TestCounter(t *testing.T) {
	v1, v2 := "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", "low 0\noom 3\noom_kill 3\n"
	if n, err := counter(v1, "oom_kill"); n != 2 || err != nil {
		t.Errorf("cgroup v1: %d, %v", n, err)
	}
	if n, err := counter(v2, "oom_kill"); n != 3 || err != nil {
		t.Errorf("cgroup v2: %d, %v", n, err)
	}
	if _, err := counter("under_oom 0\n", "oom_kill"); err == nil {
		t.Error("a missing counter was found")
	}
}

func TestStopSignals(t *testing.T) {
	for name, want := range map[string]string{"SIGINT": "interrupt", "int": "interrupt", "": "terminated", "SIGNONSENSE": "terminated"} {
		if got := stopSignal(name).String(); got != want {
			t.Errorf("stopSignal(%q) = %s, want %s", name, got, want)
		}
	}
}

func TestPlainReason(t *testing.T) {
	text := `failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "/x": no such file: unknown`
	if got := plainReason(text); got != `exec: "/x": no such file` {
		t.Errorf("plainReason = %q", got)
	}
}

func TestExitBoardTellsOnce(t *testing.T) {
	b := newExitBoard()
	b.post("a", loops.Exit{Container: "a", Code: 1})
	b.post("a", loops.Exit{Container: "a", Code: 1})
	if got := b.take(); len(got) != 1 {
		t.Errorf("an exit posted twice was kept as %+v", got)
	}
	b.forget("a")
	for range maxUntold + 5 {
		b.forget("a")
		b.post("a", loops.Exit{Container: "a"})
	}
	if got := b.take(); len(got) != maxUntold {
		t.Errorf("%d exits wait; the limit is %d", len(got), maxUntold)
	}
}

func TestKeyedMutex(t *testing.T) {
	var m keyedMutex
	ctx, cancel := context.WithCancel(context.Background())
	unlock, err := m.lock(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := m.lock(ctx, "b")
	if err != nil {
		t.Fatalf("another key: %v", err)
	}
	other()
	cancel()
	if _, err := m.lock(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("a held lock gave %v", err)
	}
	unlock()
	if len(m.locks) != 0 {
		t.Errorf("%d locks are kept after their use", len(m.locks))
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := Config{Logger: discard(), Socket: "/s", Namespace: "starling-2", StateDir: "/d", LoggerPath: "/p"}
	if err := good.validate(); err != nil {
		t.Errorf("a good configuration: %v", err)
	}
	for name, spoil := range map[string]func(*Config){
		"Logger":    func(c *Config) { c.Logger = nil },
		"socket":    func(c *Config) { c.Socket = "relative" },
		"namespace": func(c *Config) { c.Namespace = "a/b" },
		"directory": func(c *Config) { c.StateDir = "" },
		"program":   func(c *Config) { c.LoggerPath = "peer" },
	} {
		c := good
		spoil(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a bad %s: %v", name, err)
		}
	}
}
