package oci

import (
	"context"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/loops"
)

func TestTellsAnExitWithItsLastWords(t *testing.T) {
	f := newFixture(t)
	exits := f.watch()
	spec := app("exit", "7", "first words", "last words")
	f.ensure(spec)
	e := f.next(exits)
	if e.PodID != f.pod.ID || e.Container != "app" || e.Code != 7 || e.OOM {
		t.Errorf("told %+v", e)
	}
	slices.Sort(e.LastLines) // two streams have no common order
	if want := []string{"exiting with 7", "first words", "last words"}; !slices.Equal(e.LastLines, want) {
		t.Errorf("the last lines were %q, want %q", e.LastLines, want)
	}
	if since := time.Since(e.At); since < 0 || since > time.Minute {
		t.Errorf("it ended at %v", e.At)
	}
}

func TestTellsRunningOutOfMemory(t *testing.T) {
	f := newFixture(t)
	exits := f.watch()
	spec := server()
	spec.Args = []string{"--listen", "", "--allocate", "134217728"}
	spec.Memory = 32 << 20
	f.ensure(spec)
	if e := f.next(exits); !e.OOM || e.Code != 137 {
		t.Errorf("told %+v; want out of memory and code 137", e)
	}
}

func TestOurOwnStopsAreNotTold(t *testing.T) {
	f := newFixture(t)
	exits := f.watch()
	f.ensure(app())
	f.await("app", "waiting")
	f.pod.Rerun = "1"
	status := f.ensure(app())[0]
	// The successor's end by another hand is told, and only that.
	if err := syscall.Kill(int(status.PID), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := f.next(exits); e.Code != 137 || e.OOM {
		t.Errorf("told %+v; want the kill", e)
	}
	if err := f.Containers().Remove(f.ctx, f.pod.ID); err != nil {
		t.Fatal(err)
	}
	select {
	case e := <-exits:
		t.Errorf("told %+v as well", e)
	default:
	}
}

func TestAnExitWhileNobodyWatchesIsToldLater(t *testing.T) {
	f := newFixture(t)
	status := f.ensure(app())[0]
	f.await("app", "waiting")
	if err := syscall.Kill(int(status.PID), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, status.PID)
	later := f.again()
	if e := later.next(later.watch()); e.PodID != f.pod.ID || e.Code != 0 {
		t.Errorf("told %+v", e)
	}
}

// Ensure may come across an ended container before its event is handled.
func TestAnExitThatEnsureFindsIsToldOnce(t *testing.T) {
	f := newFixture(t)
	status := f.ensure(app())[0]
	incoming := f.taskEvents()
	if err := syscall.Kill(int(status.PID), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for !strings.HasPrefix(f.nextEvent(incoming), "exit ") { // containerd may learn of it later than we do
	}
	after := f.ensure(app())[0]
	if after.Restarts != 1 || !alive(after.PID) {
		t.Errorf("Ensure returned %+v", after)
	}
	exits := f.watch()
	if e := f.next(exits); e.Code != 137 {
		t.Errorf("told %+v", e)
	}
	if err := f.Containers().Remove(f.ctx, f.pod.ID); err != nil {
		t.Fatal(err)
	}
	if len(exits) != 0 {
		t.Errorf("told it again: %+v", <-exits)
	}
}

func TestRestartPolicies(t *testing.T) {
	for _, c := range []struct {
		policy string
		code   string
		again  bool
	}{
		{restartAlways, "0", true},
		{restartOnFailure, "0", false},
		{restartOnFailure, "3", true},
		{restartNever, "3", false},
	} {
		t.Run(c.policy+" "+c.code, func(t *testing.T) {
			f := newFixture(t)
			exits := f.watch()
			spec := app("exit", c.code)
			spec.Restart = c.policy
			first := f.ensure(spec)[0]
			told := f.next(exits)
			second := f.ensure(spec)[0]
			if restarted := second.Restarts == 1 && second.ID != first.ID; restarted != c.again {
				t.Errorf("%s after code %s: %+v after %+v", c.policy, c.code, second, first)
			}
			if second.Exited == c.again || (second.Exited && second.ExitCode != told.Code) {
				t.Errorf("%s after code %s: the status says %+v", c.policy, c.code, second)
			}
		})
	}
}

// A job that has ended must not run again because its peer or machine was restarted.
func TestAFinishedJobStaysFinished(t *testing.T) {
	f := newFixture(t)
	exits := f.watch()
	job := app("exit", "0", "done")
	job.Restart = restartNever
	f.ensure(job)
	f.next(exits)
	later := f.again()
	if s := later.ensure(job)[0]; !s.Exited || s.ExitCode != 0 {
		t.Errorf("a later peer finds %+v", s)
	}
	if lines := f.lines("app", LogOptions{}); !slices.Contains(lines, "done") {
		t.Errorf("its log holds %q", lines)
	}
}

func TestAfterThePlugWasPulled(t *testing.T) {
	f := newFixture(t)
	job := app()
	job.Name, job.Restart = "job", restartNever
	before := f.ensure(app(), job)
	if err := f.StopAll(f.ctx); err != nil {
		t.Fatalf("StopAll: %v", err)
	}
	for _, s := range before {
		if alive(s.PID) {
			t.Errorf("process %d survived", s.PID)
		}
	}
	after := f.again().ensure(app(), job)
	if !alive(after[0].PID) || after[0].Exited || after[0].Restarts != 1 {
		t.Errorf("the service came back as %+v", after[0])
	}
	if !after[1].Exited || after[1].ExitCode != lostCode {
		t.Errorf("a job that must run once only came back as %+v", after[1])
	}
}

func TestWatchOutlivesContainerd(t *testing.T) {
	own := startOwnContainerd(t)
	f := newLoadedFixture(t, func(c *Config) { c.Socket = own.supervisor.Socket() })
	exits := f.watch()
	spec := app()
	status := f.ensure(spec)[0]
	f.await("app", "waiting")
	if err := own.supervisor.Stop(f.ctx); err != nil {
		t.Fatalf("stop containerd: %v", err)
	}
	if !alive(status.PID) {
		t.Fatal("the container ended with containerd")
	}
	// It ends while containerd is away.
	if err := syscall.Kill(int(status.PID), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, status.PID)
	if err := own.supervise(); err != nil {
		t.Fatalf("start containerd again: %v", err)
	}
	if e := f.next(exits); e.Container != "app" || e.Code != 0 {
		t.Errorf("told %+v", e)
	}
	if lines := f.lines("app", LogOptions{}); !slices.Contains(lines, "asked to stop") {
		t.Errorf("the log lacks what was written while containerd was away: %q", lines)
	}
}

func TestUnreachableContainerdIsNamed(t *testing.T) {
	f := newFixture(t)
	lonely, err := New(Config{Logger: f.cfg.Logger, Socket: "/nonexistent/containerd.sock", Namespace: "x", StateDir: t.TempDir(), LoggerPath: os.Args[0]})
	if err != nil {
		t.Fatal(err)
	}
	defer lonely.Close()
	ctx, cancel := context.WithTimeout(f.ctx, 10*time.Second)
	defer cancel()
	if _, err := lonely.Containers().Ensure(ctx, f.pod, []loops.ContainerSpec{app()}); stepCode(err) != api.RuntimeUnavailable {
		t.Errorf("Ensure returned %v", err)
	}
	if _, err := lonely.Images().Ensure(ctx, "localhost/hello:1"); stepCode(err) != api.RuntimeUnavailable {
		t.Errorf("Images.Ensure returned %v", err)
	}
	if _, err := lonely.Version(ctx); stepCode(err) != api.RuntimeUnavailable {
		t.Errorf("Version returned %v", err)
	}
}
