package oci

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestExecReturnsTheExitCodeAndBothStreams(t *testing.T) {
	f := newFixture(t)
	f.ensure(app())
	var out, complaints bytes.Buffer
	code, err := f.Exec(f.ctx, f.pod.ID, "app", ExecSpec{Args: []string{"/bin/probe", "exit", "9", "words"}, Stdout: &out, Stderr: &complaints})
	if err != nil || code != 9 || out.String() != "words\n" || complaints.String() != "exiting with 9\n" {
		t.Errorf("Exec returned %d, %v; it wrote %q and %q", code, err, out.String(), complaints.String())
	}
}

func TestExecFeedsInputUntilItEnds(t *testing.T) {
	f := newFixture(t)
	f.ensure(app())
	text := strings.Repeat("some input\n", 10_000)
	var out bytes.Buffer
	code, err := f.Exec(f.ctx, f.pod.ID, "app", ExecSpec{Args: []string{"/bin/probe", "echo"}, Stdin: strings.NewReader(text), Stdout: &out})
	if err != nil || code != 0 || out.String() != text {
		t.Errorf("Exec returned %d, %v; %d of %d bytes came back", code, err, out.Len(), len(text))
	}
}

func TestExecWithATerminal(t *testing.T) {
	f := newFixture(t)
	f.ensure(app())
	resize := make(chan TerminalSize, 1)
	stdin, hold := io.Pipe()
	defer hold.Close()
	seen := &awaitWriter{want: "terminal true", seen: make(chan struct{})}
	go func() {
		<-seen.seen
		resize <- TerminalSize{Width: 100, Height: 30}
	}()
	code, err := f.Exec(f.ctx, f.pod.ID, "app", ExecSpec{Args: []string{"/bin/probe", "terminal"}, TTY: true, Stdin: stdin, Stdout: seen, Resize: resize})
	if err != nil || code != 0 || !strings.Contains(seen.all.String(), "size 100x30") {
		t.Errorf("Exec returned %d, %v; it wrote %q", code, err, seen.all.String())
	}
}

// awaitWriter tells once a text was written to it.
type awaitWriter struct {
	want string
	seen chan struct{}
	all  bytes.Buffer
}

func (w *awaitWriter) Write(p []byte) (int, error) {
	before := strings.Contains(w.all.String(), w.want)
	w.all.Write(p)
	if !before && strings.Contains(w.all.String(), w.want) {
		close(w.seen)
	}
	return len(p), nil
}

func TestExecEndsWithItsContext(t *testing.T) {
	f := newFixture(t)
	f.ensure(app())
	ctx, cancel := context.WithCancel(f.ctx)
	seen := &awaitWriter{want: "waiting", seen: make(chan struct{})}
	go func() { <-seen.seen; cancel() }()
	_, err := f.Exec(ctx, f.pod.ID, "app", ExecSpec{Args: []string{"/bin/probe", "wait"}, Stdout: seen})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("Exec returned %v", err)
	}
	task, err := f.runningTask(f.in(f.ctx), f.pod.ID, "app")
	if err != nil {
		t.Fatal(err)
	}
	if pids, err := task.Pids(f.in(f.ctx)); err != nil || len(pids) != 1 {
		t.Errorf("after the end of its session the command still runs: %v, %v", pids, err)
	}
}

func TestExecWhereNothingRuns(t *testing.T) {
	f := newFixture(t)
	_, err := f.Exec(f.ctx, f.pod.ID, "app", ExecSpec{Args: []string{"/bin/probe"}})
	if !errors.Is(err, ErrNotRunning) {
		t.Errorf("Exec in a container that does not run returned %v", err)
	}
	f.ensure(app())
	_, err = f.Exec(f.ctx, f.pod.ID, "app", ExecSpec{Args: []string{"/bin/nothing"}})
	if err == nil || !strings.Contains(err.Error(), "/bin/nothing") {
		t.Errorf("Exec of a program that does not exist returned %v", err)
	}
}

func TestDialPodSaysWhatIsWrong(t *testing.T) {
	f := newFixture(t)
	f.pod.NetNS = netns(t, "dial")
	ctx, cancel := context.WithTimeout(f.ctx, 10*time.Second)
	defer cancel()
	if _, err := DialPod(ctx, f.pod.NetNS, 9); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a port that nobody serves: %v", err)
	}
	if _, err := DialPod(ctx, "/nonexistent/ns", 9); err == nil || !strings.Contains(err.Error(), "/nonexistent/ns") {
		t.Errorf("a namespace that is not there: %v", err)
	}
}
