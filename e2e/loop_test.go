package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// attachLoop runs an example loop on every machine until the returned function or the
// end of the test.
func (c *cluster) attachLoop(t *testing.T, argv ...string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var programs []*exec.Cmd
	var printed []*bytes.Buffer
	stop = func() {
		cancel()
		for _, p := range programs {
			_ = p.Wait() // it was interrupted
		}
		if programs = nil; t.Failed() {
			t.Logf("the loop printed:\n%v", printed)
		}
	}
	t.Cleanup(stop)
	for n := 1; n <= machines; n++ {
		program := exec.CommandContext(ctx, argv[0], append(argv[1:], "--socket", c.lab.Socket(n))...)
		program.WaitDelay = time.Second
		program.Cancel = func() error { return program.Process.Signal(os.Interrupt) }
		out := &bytes.Buffer{}
		printed = append(printed, out)
		program.Stdout, program.Stderr = out, out
		if err := program.Start(); err != nil {
			t.Fatal(err)
		}
		programs = append(programs, program)
	}
	return stop
}

// A company's own step hooks into every pod's lifecycle without any spec being touched:
// a program in Go, and the same in Python without a library.
func TestForeignLoop(t *testing.T) {
	c := need(t)
	audit := filepath.Join(c.dir, "audit")
	build := exec.Command("go", "build", "-o", audit, "../examples/loops/audit")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if printed, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the loop: %v\n%s", err, printed)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("python3 is missing; the loop in Python is an example that people will run")
	}
	for name, argv := range map[string][]string{"go": {audit}, "python": {python, "../examples/loops/audit-python/audit.py"}} {
		t.Run(name, func(t *testing.T) { c.testLoop(t, "loop-"+name, argv) })
	}
}

func (c *cluster) testLoop(t *testing.T, pod string, argv []string) {
	c.remove(t, pod, "step/audit-check")
	stop := c.attachLoop(t, argv...)
	c.await(t, 1, "step/audit-check", "part of the lifecycle", func(s seen) bool { return s.ready() })
	c.apply(t, 2, "alice", podSpec{name: pod, args: serve}.String())
	s := c.awaitReady(t, 3, pod)
	if got := s.status("loops.audit.trusted"); got != "localhost/" {
		t.Errorf("the loop wrote %q", got)
	}
	says(t, c.must(t, 1, "status", pod), "audit:check")
	says(t, c.must(t, 2, "explain", "pod.status.loops.audit.trusted"), "written by step audit:check of loop audit, within 60 entries")
	says(t, c.must(t, 2, "explain", "pod.spec.containers.*.image"), "read by ", "audit:check", "image")

	stop()
	c.apply(t, 2, "alice", podSpec{name: pod, args: serve, image: helloAgain}.String())
	for n := 1; n <= machines; n++ {
		c.awaitWhy(t, n, pod, `audit:check: foreign loop audit is not attached on m\d; start its program there`)
	}
	if now := c.current(t, 1, pod); now.number("containers.app.pid") != s.number("containers.app.pid") {
		t.Error("what runs was touched while a step before it waits")
	}
	c.attachLoop(t, append(argv, "--trusted", "registry.example/")...)
	c.awaitWhy(t, 1, pod, `audit:check: .*localhost/hello:2.* is not from registry.example/`)
	c.must(t, 1, "switch", pod, "ready", "--skip", "audit:check")
	c.awaitReady(t, 1, pod)
	says(t, c.must(t, 1, "history", pod), "skip audit:check")
}
