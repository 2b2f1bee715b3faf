package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

// fixture is a peer's runtime for one test, and a pod of the test's own.
type fixture struct {
	*Runtime
	t   testing.TB
	ctx context.Context
	pod loops.PodSandbox
}

// sharedNamespace holds the test images for all tests that don't change them.
const sharedNamespace = "test"

// newFixture works in the shared namespace, from which it removes every pod at the end.
func newFixture(t testing.TB, adjust ...func(*Config)) *fixture {
	t.Helper()
	f := makeFixture(t, append(adjust, func(c *Config) { c.Namespace = sharedNamespace }))
	t.Cleanup(func() { f.cleanUp(f.Sweep(context.Background(), func(string) bool { return false })) })
	return f
}

// newBareFixture has a containerd namespace of its own, without images, and removes it
// at the end.
func newBareFixture(t testing.TB, adjust ...func(*Config)) *fixture {
	t.Helper()
	f := makeFixture(t, adjust)
	t.Cleanup(func() { f.cleanUp(f.Purge(context.Background())) })
	return f
}

// newLoadedFixture has a namespace of its own with the test images in it.
func newLoadedFixture(t testing.TB, adjust ...func(*Config)) *fixture {
	t.Helper()
	f := newBareFixture(t, adjust...)
	if err := shared.load(f.Runtime); err != nil {
		t.Fatal(err)
	}
	return f
}

func makeFixture(t testing.TB, adjust []func(*Config)) *fixture {
	t.Helper()
	needRoot(t)
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	t.Cleanup(cancel)
	namespace := "test-" + strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	cfg, err := shared.config(testWriter{t}, namespace[:min(len(namespace), 60)], t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range adjust {
		a(&cfg)
	}
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{Runtime: r, t: t, ctx: ctx}
	f.pod = loops.PodSandbox{
		ID:        fmt.Sprintf("%016x", time.Now().UnixNano()),
		Namespace: "default",
		Name:      "web",
		Hostname:  "web",
		Resolv:    "nameserver 127.0.0.1\n",
		Hosts:     "127.0.0.1 localhost\n",
		Stop:      loops.StopSpec{Signal: "SIGTERM", Grace: 5 * time.Second},
	}
	return f
}

func (f *fixture) cleanUp(err error) {
	if err != nil {
		f.t.Errorf("clean up: %v", err)
	}
	f.Close()
}

// app is a container that runs the probe with the given arguments.
func app(args ...string) loops.ContainerSpec {
	return loops.ContainerSpec{Name: "app", Image: "localhost/probe:1", Args: args, Restart: "always"}
}

// server is a container that serves HTTP on port 8080 of the pod.
func server() loops.ContainerSpec {
	return loops.ContainerSpec{Name: "server", Image: "localhost/hello:1", Args: []string{"--listen", "[::]:8080"}, Restart: "always"}
}

// ensure brings the pod to its specs and fails the test if that fails. The processes
// may not have come far: await tells when they have.
func (f *fixture) ensure(specs ...loops.ContainerSpec) []loops.ContainerStatus {
	f.t.Helper()
	statuses, err := f.Containers().Ensure(f.ctx, f.pod, specs)
	if err != nil {
		f.t.Fatalf("Ensure: %v", err)
	}
	if len(statuses) != len(specs) {
		f.t.Fatalf("Ensure returned %d statuses for %d containers", len(statuses), len(specs))
	}
	return statuses
}

// again returns a second Runtime on the same containerd and directories, as a peer
// that was started again has.
func (f *fixture) again() *fixture {
	f.t.Helper()
	r, err := New(f.cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { r.Close() })
	return &fixture{Runtime: r, t: f.t, ctx: f.ctx, pod: f.pod}
}

// watch collects exits until the test ends.
func (f *fixture) watch() <-chan loops.Exit {
	exits := make(chan loops.Exit, 64)
	ctx, cancel := context.WithCancel(f.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Watch(ctx, func(e loops.Exit) { exits <- e })
	}()
	f.t.Cleanup(func() { cancel(); <-done })
	return exits
}

// next waits for an exit.
func (f *fixture) next(exits <-chan loops.Exit) loops.Exit {
	f.t.Helper()
	select {
	case e := <-exits:
		return e
	case <-time.After(20 * time.Second):
		f.t.Fatal("no exit was told within 20 s")
		return loops.Exit{}
	}
}

// netns makes a network namespace with a loopback interface, and returns its path.
func netns(t testing.TB, name string) string {
	t.Helper()
	name = fmt.Sprintf("%s-%d", name, os.Getpid())
	run(t, "ip", "netns", "add", name)
	t.Cleanup(func() { run(t, "ip", "netns", "del", name) })
	run(t, "ip", "-n", name, "link", "set", "lo", "up")
	return "/run/netns/" + name
}

func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// get asks a server in a pod's network namespace for a page.
func (f *fixture) get(port uint16, path string) (string, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return DialPod(ctx, f.pod.NetNS, port)
	}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	answer, err := client.Get("http://pod" + path)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return string(body), err
}

// output waits for a command in a container and returns what it printed.
func (f *fixture) output(container string, args ...string) (string, uint32) {
	f.t.Helper()
	var out, complaints bytes.Buffer
	code, err := f.Exec(f.ctx, f.pod.ID, container, ExecSpec{Args: args, Stdout: &out, Stderr: &complaints})
	if err != nil {
		f.t.Fatalf("Exec %v: %v", args, err)
	}
	if complaints.Len() > 0 {
		f.t.Logf("%v wrote: %s", args, complaints.String())
	}
	return out.String(), code
}

// lines reads a container's log.
func (f *fixture) lines(container string, o LogOptions) []string {
	f.t.Helper()
	var lines []string
	err := f.Logs(f.ctx, f.pod.ID, container, o, func(l LogLine) error {
		lines = append(lines, l.Text)
		return nil
	})
	if err != nil {
		f.t.Fatalf("Logs: %v", err)
	}
	return lines
}

// await follows a container's log until a line contains text.
func (f *fixture) await(container, text string) {
	f.t.Helper()
	found := errors.New("found")
	err := f.Logs(f.ctx, f.pod.ID, container, LogOptions{Follow: true}, func(l LogLine) error {
		if strings.Contains(l.Text, text) {
			return found
		}
		return nil
	})
	if !errors.Is(err, found) {
		f.t.Fatalf("the log of %s never said %q: %v", container, text, err)
	}
}

// alive tells whether a process exists and is no zombie.
func alive(pid uint32) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ") && syscall.Kill(int(pid), 0) == nil
}

// testWriter writes a logger's lines to the test's log.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// startOwnContainerd starts a second containerd that the test may stop.
func startOwnContainerd(t *testing.T) *machine {
	t.Helper()
	needRoot(t)
	dir, err := os.MkdirTemp("", "starling-own-")
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{dir: dir}
	m.supervisor, err = NewSupervisor(SupervisorConfig{Logger: slog.New(slog.DiscardHandler), Dir: filepath.Join(dir, "c")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.stop)
	if err := m.supervise(); err != nil {
		t.Fatal(err)
	}
	return m
}

// awaitEnd waits for a process that is not our child to end.
func awaitEnd(t *testing.T, pid uint32) {
	t.Helper()
	process, err := watch(int(pid))
	if errors.Is(err, os.ErrProcessDone) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer process.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := process.Wait(ctx); err != nil {
		t.Fatalf("process %d did not end: %v", pid, err)
	}
}

// stepCode returns the code of a step's error; empty if it is none.
func stepCode(err error) string {
	var step *lifecycle.Error
	if errors.As(err, &step) {
		return step.Code
	}
	return ""
}

// thisArchitecture is the one that images for this machine name.
const thisArchitecture = runtime.GOARCH
