package main

import (
	"context"
	"log/slog"
	"os"
	"os/exec"

	"starling.dev/starling/api"
	"starling.dev/starling/oci"
)

// labRuntime is the containerd that all machines of a lab share: the system's, or one
// that the lab starts and stops.
type labRuntime struct{}

func (labRuntime) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

func (r labRuntime) supervisor(dir string) (*oci.Supervisor, error) {
	return oci.NewSupervisor(oci.SupervisorConfig{Logger: r.logger(), Dir: dir})
}

// Ensure makes a containerd run that outlives this command.
func (r labRuntime) Ensure(ctx context.Context, dir string) (string, error) {
	if oci.Answers(ctx, oci.SystemSocket) {
		return oci.SystemSocket, nil
	}
	if _, err := exec.LookPath("containerd"); err != nil {
		return "", api.Errorf(api.RuntimeUnavailable, "there is no containerd on this computer; install it with `apt-get install containerd`")
	}
	s, err := r.supervisor(dir)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1) // one result, which nobody may be waiting for
	go func() { ended <- s.Run(ctx) }()
	select {
	case <-s.Ready():
		cancel()
		return s.Socket(), <-ended
	case err := <-ended:
		cancel()
		return "", err
	}
}

func (r labRuntime) within(socket, namespace string, do func(*oci.Runtime) error) error {
	rt, err := oci.New(oci.Config{Logger: r.logger(), Socket: socket, Namespace: namespace, StateDir: "/run/starling/lab", LoggerPath: "/nonexistent"})
	if err != nil {
		return err
	}
	defer rt.Close()
	return do(rt)
}

// Kill ends every container of a namespace at once.
func (r labRuntime) Kill(ctx context.Context, socket, namespace string) error {
	return r.within(socket, namespace, func(rt *oci.Runtime) error { return rt.StopAll(ctx) })
}

// Purge removes everything of a namespace. Without a containerd there is nothing.
func (r labRuntime) Purge(ctx context.Context, socket, namespace string) error {
	if !oci.Answers(ctx, socket) {
		return nil
	}
	return r.within(socket, namespace, func(rt *oci.Runtime) error { return rt.Purge(ctx) })
}

// Stop ends the containerd that Ensure started.
func (r labRuntime) Stop(ctx context.Context, dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return nil
	}
	s, err := r.supervisor(dir)
	if err != nil {
		return err
	}
	return s.Stop(ctx)
}
