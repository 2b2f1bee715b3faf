package oci

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"starling.dev/starling/loops"
)

// shims returns the process IDs of a containerd's shims.
func shims(t *testing.T, socket string) []int {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte("containerd-shim")) || !bytes.Contains(text, []byte(socket)) {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(path, "/")[2])
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, pid)
	}
	return found
}

func kill9(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, uint32(pid))
}

func TestAShimThatIsKilled(t *testing.T) {
	own := startOwnContainerd(t)
	f := newLoadedFixture(t, func(c *Config) { c.Socket = own.supervisor.Socket() })
	exits := f.watch()
	before := f.ensure(app())[0]
	for _, pid := range shims(t, f.cfg.Socket) {
		kill9(t, pid)
	}
	f.next(exits)
	after := f.ensure(app())[0]
	if alive(before.PID) || !alive(after.PID) || after.Restarts != 1 {
		t.Errorf("after its shim was killed, %+v became %+v; the old process runs: %v", before, after, alive(before.PID))
	}
}

// Everything is killed at once, as when the machine goes down, and nothing had time
// to write a word.
func TestAMachineThatWentDown(t *testing.T) {
	own := startOwnContainerd(t)
	f := newLoadedFixture(t, func(c *Config) { c.Socket = own.supervisor.Socket() })
	before := f.ensure(app())[0]
	f.await("app", "waiting")
	kill9(t, ownPID(t, own.supervisor))
	for _, pid := range shims(t, f.cfg.Socket) {
		kill9(t, pid)
	}
	kill9(t, int(before.PID))
	if err := own.supervise(); err != nil {
		t.Fatalf("start containerd again: %v", err)
	}
	after := f.again().ensure(app())[0]
	if !alive(after.PID) || after.ID == before.ID || after.Digest != before.Digest {
		t.Errorf("it came back as %+v, from %+v", after, before)
	}
	if err := f.Containers().Remove(f.ctx, f.pod.ID); err != nil {
		t.Fatalf("Remove: %v", err)
	}
	if left := f.leftovers(); len(left) > 0 {
		t.Errorf("it left %q", left)
	}
}

func TestManyPodsAtOnce(t *testing.T) {
	f := newFixture(t)
	const pods = 12
	var group sync.WaitGroup
	errs := make([]error, pods)
	for n := range pods {
		group.Go(func() {
			pod := f.pod
			pod.ID = fmt.Sprintf("%02d%s", n, pod.ID)
			_, errs[n] = f.Containers().Ensure(f.ctx, pod, []loops.ContainerSpec{app()})
		})
	}
	group.Wait()
	for n, err := range errs {
		if err != nil {
			t.Errorf("pod %d: %v", n, err)
		}
	}
	running, err := f.Pods(f.ctx)
	if err != nil || len(running) != pods {
		t.Fatalf("%d pods run, %v", len(running), err)
	}
	for _, pod := range running {
		if len(pod.Containers) != 1 || !alive(pod.Containers[0].PID) {
			t.Errorf("pod %s has %+v", pod.ID, pod.Containers)
		}
	}
}
