package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"starling.dev/starling/lab"
	"starling.dev/starling/oci/testimage"
)

// labName is the lab's. Two runs at once need two names: STARLING_E2E gives another.
var labName = cmp.Or(os.Getenv("STARLING_E2E"), "e2e")

const (
	machines = 3
	// helloImage and helloAgain are two names of one program: the second is what a pod
	// changes its image to.
	helloImage = "localhost/hello:1"
	helloAgain = "localhost/hello:2"
)

// labMemory is what the machines offer: only m3 has room for a pod of 700Mi.
const labMemory = "512Mi,512Mi,1Gi"

// cluster is the lab that all tests share.
type cluster struct {
	dir  string // of what was built
	peer string // the program
	lab  *lab.Lab
}

// shared is made by TestMain and only read by tests; nil where there can be no lab.
var shared *cluster

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) (code int) {
	if os.Geteuid() != 0 {
		return m.Run() // each test says why it skips
	}
	dir, err := os.MkdirTemp("", "starling-e2e-")
	if err != nil {
		return failed(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // a test runs the program as nobody
		return failed(err)
	}
	unlock, err := lock()
	if err != nil {
		return failed(err)
	}
	defer unlock()
	c := &cluster{dir: dir, peer: filepath.Join(dir, "peer")}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := c.build(ctx); err != nil {
		return failed(err)
	}
	defer func() {
		if err := c.down(); err != nil {
			code = failed(err)
		}
	}()
	if err := errors.Join(c.down(), c.up(ctx)); err != nil {
		return failed(err)
	}
	shared = c
	if code = m.Run(); code != 0 {
		c.printLogs()
	}
	return code
}

// printLogs shows what the peers had to say about a failure.
func (c *cluster) printLogs() {
	for n := 1; n <= guestNumber; n++ {
		raw, err := os.ReadFile(c.lab.Log(n))
		if err != nil {
			continue // a guest's log is its test's
		}
		lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
		fmt.Fprintf(os.Stderr, "log of %s:\n%s\n", lab.Name(n), strings.Join(lines[max(0, len(lines)-25):], "\n"))
	}
}

// lock waits until no other run of these tests has the lab.
func lock() (unlock func() error, err error) {
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "starling-"+labName+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("wait for another run of these tests: %w", err), f.Close())
	}
	return f.Close, nil
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, "e2e:", err)
	return 1
}

// build compiles the program and the image that the pods run.
func (c *cluster) build(ctx context.Context) error {
	hello := filepath.Join(c.dir, "hello")
	build := exec.CommandContext(ctx, "go", "build", "-o", c.peer, "../cmd/peer")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if printed, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the program: %w\n%s", err, printed)
	}
	if err := testimage.Compile(ctx, "..", "./examples/hello", hello); err != nil {
		return err
	}
	for _, ref := range []string{helloImage, helloAgain} {
		f, err := os.Create(c.archive(ref))
		if err != nil {
			return err
		}
		err = testimage.Build(ctx, f, testimage.Options{Ref: ref, Binary: hello})
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("build image %s: %w", ref, err)
		}
	}
	return nil
}

func (c *cluster) archive(ref string) string {
	return filepath.Join(c.dir, filepath.Base(ref)+".tar")
}

func (c *cluster) up(ctx context.Context) (err error) {
	if err := c.command(ctx, "lab", "up", "--name", labName, "--nodes", fmt.Sprint(machines), "--cpu", "2", "--memory", labMemory); err != nil {
		return err
	}
	if c.lab, err = lab.Open(lab.Config{Name: labName, Program: c.peer}); err != nil {
		return err
	}
	for n := 1; n <= machines; n++ {
		for _, ref := range []string{helloImage, helloAgain} {
			if err := c.command(ctx, "--socket", c.lab.Socket(n), "image", "load", "-f", c.archive(ref)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *cluster) down() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return c.command(ctx, "lab", "down", "--name", labName)
}

// command runs the program; its output matters only if it fails.
func (c *cluster) command(ctx context.Context, args ...string) error {
	printed, err := exec.CommandContext(ctx, c.peer, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("run peer %q: %w\n%s", args, err, printed)
	}
	return nil
}

// need returns the lab, or skips the test.
func need(t *testing.T) *cluster {
	t.Helper()
	if shared == nil {
		t.Skip("a lab makes network namespaces and runs containers: run this as root")
	}
	return shared
}
