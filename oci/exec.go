package oci

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// ExecSpec is a command to run inside of a running container.
type ExecSpec struct {
	Args []string
	// TTY gives the command a terminal. Its output is then Stdout alone.
	TTY bool
	// Stdin may be nil. Its Read must return once the caller's session is over.
	Stdin          io.Reader
	Stdout, Stderr io.Writer // may be nil: the output is dropped
	// Resize sends the terminal's size, at the start and whenever it changes; may be
	// nil.
	Resize <-chan TerminalSize
}

// TerminalSize is a terminal's size in characters.
type TerminalSize struct{ Width, Height uint16 }

// ErrNotRunning is returned for a container that does not run on this machine.
var ErrNotRunning = errors.New("the container is not running")

// outputPatience bounds the wait for a command's output after its end: a process that
// it left behind may hold the pipes open.
const outputPatience = 2 * time.Second

// Exec runs a command in a container's namespaces and limits, and returns its exit
// code. When ctx is done the command is killed.
func (r *Runtime) Exec(ctx context.Context, podID, container string, e ExecSpec) (uint32, error) {
	if len(e.Args) == 0 {
		return 0, fmt.Errorf("run a command in container %s: no command was given", container)
	}
	inside := r.in(ctx)
	task, err := r.runningTask(inside, podID, container)
	if err != nil {
		return 0, err
	}
	spec, err := task.Spec(inside)
	if err != nil {
		return 0, fmt.Errorf("read the spec of container %s: %w", container, err)
	}
	stdin := newStdin(e.Stdin)
	process, err := task.Exec(inside, "exec-"+strings.ToLower(rand.Text()), processSpec(spec.Process, e), r.execIO(e, stdin))
	if err != nil {
		return 0, execFailure(container, e, err)
	}
	defer r.endExec(process)
	ended, err := process.Wait(inside)
	if err != nil {
		return 0, execFailure(container, e, err)
	}
	// Starting is not cut short: endExec must know whether there is something to kill.
	starting, cancel := context.WithTimeout(context.WithoutCancel(inside), cleanupTime)
	defer cancel()
	if err := process.Start(starting); err != nil {
		return 0, execFailure(container, e, err)
	}
	return r.attend(inside, process, e, stdin, ended)
}

// runningTask finds the running generation of a container.
func (r *Runtime) runningTask(ctx context.Context, podID, container string) (containerd.Task, error) {
	have, err := r.podRecords(ctx, podID)
	if err != nil {
		return nil, r.explain(err)
	}
	at := slices.IndexFunc(have, func(rec record) bool { return rec.Container == container && rec.Phase == phaseRunning })
	if at < 0 {
		return nil, fmt.Errorf("container %s of pod %s: %w on this machine", container, shortID(podID), ErrNotRunning)
	}
	return r.task(ctx, have[at].ID)
}

// processSpec is the container's own process with other arguments.
func processSpec(own *specs.Process, e ExecSpec) *specs.Process {
	process := *own
	process.Args = e.Args
	process.Terminal = e.TTY
	if e.TTY && !slices.ContainsFunc(own.Env, func(v string) bool { return strings.HasPrefix(v, "TERM=") }) {
		process.Env = append(slices.Clone(own.Env), "TERM=xterm")
	}
	return &process
}

// execIO connects the command's streams. A shim wants either all of a command's
// output or none, so what nobody wants goes nowhere here.
func (r *Runtime) execIO(e ExecSpec, stdin *stdinReader) cio.Creator {
	streams := cio.Streams{
		Terminal: e.TTY,
		Stdout:   cmp.Or[io.Writer](e.Stdout, io.Discard),
		Stderr:   cmp.Or[io.Writer](e.Stderr, io.Discard),
		FIFODir:  filepath.Join(r.cfg.StateDir, "fifo"),
	}
	if e.Stdin != nil {
		streams.Stdin = stdin
	}
	if e.TTY {
		streams.Stderr = nil
	}
	return cio.NewCreator(func(s *cio.Streams) { *s = streams })
}

// attend serves a started command until it ends.
func (r *Runtime) attend(ctx context.Context, process containerd.Process, e ExecSpec, stdin *stdinReader, ended <-chan containerd.ExitStatus) (uint32, error) {
	stdinEnded := stdin.ended
	for {
		select {
		case <-stdinEnded:
			stdinEnded = nil
			if err := process.CloseIO(ctx, containerd.WithStdinCloser); err != nil {
				r.cfg.Logger.Debug("can't close a command's input", "error", err)
			}
		case size, ok := <-e.Resize:
			if !ok {
				e.Resize = nil
			} else if err := process.Resize(ctx, uint32(size.Width), uint32(size.Height)); err != nil {
				r.cfg.Logger.Debug("can't resize a command's terminal", "error", err)
			}
		case exit := <-ended:
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			if err := exit.Error(); err != nil {
				return 0, r.explain(fmt.Errorf("wait for a command: %w", err))
			}
			awaitOutput(process.IO())
			return exit.ExitCode(), nil
		}
	}
}

// awaitOutput waits until the command's output has been copied.
func awaitOutput(streams cio.IO) {
	copied := make(chan struct{})
	go func() { streams.Wait(); close(copied) }()
	select {
	case <-copied:
	case <-time.After(outputPatience):
	}
}

// endExec kills what still runs and removes the process from its task.
func (r *Runtime) endExec(process containerd.Process) {
	ctx, cancel := context.WithTimeout(r.in(context.Background()), cleanupTime)
	defer cancel()
	if _, err := process.Delete(ctx, containerd.WithProcessKill); err != nil {
		r.cfg.Logger.Debug("can't remove an ended command", "error", err)
	}
}

func execFailure(container string, e ExecSpec, err error) error {
	return fmt.Errorf("run %s in container %s: %w", e.Args[0], container, err)
}

// stdinReader tells when its reader has ended, which containerd has to be told.
type stdinReader struct {
	r     io.Reader
	once  sync.Once
	ended chan struct{}
}

func newStdin(r io.Reader) *stdinReader { return &stdinReader{r: r, ended: make(chan struct{})} }

// Read implements io.Reader.
func (s *stdinReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil {
		s.once.Do(func() { close(s.ended) })
	}
	return n, err
}
