package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"starling.dev/starling/client"
	"starling.dev/starling/lab"
	"starling.dev/starling/netstack/linux/lan"
)

// guestNumber is the machine that tests of starting and joining have for themselves.
const guestNumber = machines + 1

// guest is a fourth machine on the lab's LAN. It lies where the lab has its machines, so
// that `lab down` removes what a killed test run left of it.
type guest struct {
	c      *cluster
	name   string
	data   string
	socket string
	flags  []string
	cmd    *exec.Cmd // nil while its peer does not run
	log    safeBuffer
}

// guest plugs in a machine with nothing on it, until the test ends.
func (c *cluster) guest(t *testing.T) *guest {
	t.Helper()
	if err := c.lan(t).Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(lab.DataDir, labName, fmt.Sprint(guestNumber))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	g := &guest{c: c, name: lab.Name(guestNumber), data: filepath.Join(dir, "data"), socket: client.LabSocket(labName, guestNumber)}
	g.flags = []string{
		"--data=" + g.data, "--listen-socket=" + g.socket, "--scope=" + c.lab.Namespace(guestNumber),
		"--containerd=" + c.containerd(t), "--machine-id=guest",
	}
	t.Cleanup(func() {
		if t.Failed() {
			own := "machine/" + g.name
			t.Logf("the guest of itself: %v%v%v%v", g.ask(t, "status", own), g.ask(t, "why", own), g.ask(t, "events", own), g.ask(t, "history", own))
			t.Logf("log of the guest:\n%s", g.log.String())
		}
		g.stop(t, syscall.SIGKILL)
		if strings.Contains(c.must(t, 1, "machine", "ls"), g.name) {
			c.must(t, 1, "machine", "remove", g.name)
			c.awaitMachines(t, machines)
		}
		if a := g.run(t, g.with("leave", "--purge")...); a.code != 0 {
			t.Errorf("remove the guest: %v", a)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return g
}

// newcomer is a guest that has joined through machine n, with the image that tests run, and
// with a label.
func (c *cluster) newcomer(t *testing.T, n int, label string) *guest {
	t.Helper()
	g := c.guest(t)
	if a := g.join(t, c.invite(t, n)); a.code != 0 {
		t.Fatal(a)
	}
	g.start(t, "up")
	c.awaitMachines(t, machines+1)
	if a := g.ask(t, "image", "load", "-f", c.archive(helloImage)); a.code != 0 {
		t.Fatal(a)
	}
	c.must(t, 1, "machine", "label", g.name, label)
	return g
}

// lan is the lab's LAN with the guest on it.
func (c *cluster) lan(t *testing.T) *lan.LAN {
	t.Helper()
	l, err := lan.New(lan.Config{Name: labName, Nodes: guestNumber})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// containerd is the socket that the lab's machines use.
func (c *cluster) containerd(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(lab.DataDir, labName, "lab.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Socket string }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	return file.Socket
}

// with adds the guest's flags to a command of the daemon; a flag that the command gives
// itself counts.
func (g *guest) with(args ...string) []string {
	all := append([]string{args[0], "--name=" + g.name}, g.flags...)
	return append(all, args[1:]...)
}

func (g *guest) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, g.c.peer, args...)
}

// run runs the program on the guest to its end.
func (g *guest) run(t *testing.T, args ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	return g.finish(t, g.command(ctx, args...))
}

func (g *guest) finish(t *testing.T, cmd *exec.Cmd) (a answer) {
	t.Helper()
	// The namespace is that of the thread which starts the program.
	if err := g.c.lab.Within(guestNumber, func() error { a = finish(t, cmd); return nil }); err != nil {
		t.Fatal(err)
	}
	return a
}

// ask runs a command at the guest's own peer.
func (g *guest) ask(t *testing.T, args ...string) answer {
	t.Helper()
	return g.c.program(t, "", append([]string{"--socket", g.socket}, args...)...)
}

// awaitFarewell waits until the guest's peer ends, since its machine was removed.
func (g *guest) awaitFarewell(t *testing.T) {
	t.Helper()
	cmd := g.cmd
	g.cmd = nil
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended: // the exit code tells
	case <-time.After(patience):
		_ = cmd.Process.Kill() // it may just have ended
		t.Fatalf("the guest's peer does not end:\n%s", g.log.String())
	}
	if code := cmd.ProcessState.ExitCode(); code != 6 {
		t.Errorf("the guest's peer ended with %d", code)
	}
	says(t, g.log.String(), "this machine was removed from the cluster", "peer leave --purge")
}

// start runs the guest's peer, and waits until its machine is ready.
func (g *guest) start(t *testing.T, args ...string) {
	t.Helper()
	g.begin(t, args...)
	until(t, "the guest is ready", func() bool {
		if !alive(int64(g.cmd.Process.Pid)) {
			t.Fatalf("the guest's peer ended:\n%s", g.log.String())
		}
		a := g.ask(t, "machine", "ls", "-o", "json")
		return a.code == 0 && guestReady(t, a.out)
	})
}

// begin runs the guest's peer.
func (g *guest) begin(t *testing.T, args ...string) {
	t.Helper()
	g.cmd = g.command(context.WithoutCancel(t.Context()), g.with(args...)...)
	g.cmd.Stdout, g.cmd.Stderr = &g.log, &g.log
	if err := g.c.lab.Within(guestNumber, g.cmd.Start); err != nil {
		t.Fatal(err)
	}
	pid := fmt.Sprint(g.cmd.Process.Pid)
	if err := os.WriteFile(filepath.Join(filepath.Dir(g.data), "pid"), []byte(pid), 0o600); err != nil {
		t.Fatal(err)
	}
}

func guestReady(t *testing.T, list string) bool {
	t.Helper()
	var got struct {
		Machines []struct {
			Self  bool
			Phase string
		}
	}
	if err := json.Unmarshal([]byte(list), &got); err != nil {
		t.Fatalf("%v in %s", err, list)
	}
	for _, m := range got.Machines {
		if m.Self {
			return m.Phase == "ready"
		}
	}
	return false
}

// stop ends the guest's peer, if it runs, and returns its exit code.
func (g *guest) stop(t *testing.T, sig syscall.Signal) int {
	t.Helper()
	if g.cmd == nil {
		return 0
	}
	cmd := g.cmd
	g.cmd = nil
	if err := cmd.Process.Signal(sig); err != nil {
		t.Errorf("signal the guest's peer: %v", err)
	}
	_ = cmd.Wait() // the exit code tells
	return cmd.ProcessState.ExitCode()
}

// forget removes the guest's data directory: the machine is reinstalled.
func (g *guest) forget(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(g.data); err != nil {
		t.Fatal(err)
	}
}

// join redeems a token; extra are further flags.
func (g *guest) join(t *testing.T, token string, extra ...string) answer {
	t.Helper()
	return g.run(t, g.with(append([]string{"join", "--no-run", "--token", token}, extra...)...)...)
}

// invite makes a token at machine n.
func (c *cluster) invite(t *testing.T, n int, args ...string) string {
	t.Helper()
	line := c.must(t, n, append([]string{"invite"}, args...)...)
	_, token, found := strings.Cut(strings.TrimSpace(line), "--token ")
	if !found {
		t.Fatalf("invite printed %q", line)
	}
	return token
}

// safeBuffer is a buffer that a process writes while a test reads.
type safeBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
