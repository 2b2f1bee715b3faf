package oci

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"starling.dev/starling/oci/testimage"
)

// machine is what the tests that need root share: a private containerd and the
// archive of a test image.
type machine struct {
	dir        string
	supervisor *Supervisor
	hello      []byte // archive of localhost/hello:1
	probe      []byte // archive of localhost/probe:1
	binary     string // path of the probe
}

// shared is set by TestMain before any test runs; nil when the tests can't have it.
var shared *machine

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "logger" {
		if err := RunLogger(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "guard" {
		if err := RunGuard(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	if os.Getuid() != 0 {
		return m.Run()
	}
	var err error
	shared, err = startMachine()
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare the tests' containerd:", err)
		return 1
	}
	defer shared.stop()
	return m.Run()
}

func startMachine() (*machine, error) {
	dir, err := os.MkdirTemp("", "starling-oci-")
	if err != nil {
		return nil, err
	}
	s := &machine{dir: dir, binary: filepath.Join(dir, "probe")}
	if s.hello, err = buildImage(filepath.Join(dir, "hello"), "./examples/hello", "localhost/hello:1"); err != nil {
		return nil, err
	}
	if s.probe, err = buildImage(s.binary, "./oci/testdata/probe", "localhost/probe:1"); err != nil {
		return nil, err
	}
	s.supervisor, err = NewSupervisor(SupervisorConfig{Logger: slog.New(slog.DiscardHandler), Dir: filepath.Join(dir, "containerd")})
	if err != nil {
		return nil, err
	}
	if err := s.supervise(); err != nil {
		return nil, err
	}
	return s, s.loadShared()
}

func buildImage(binary, pkg, ref string) ([]byte, error) {
	if err := testimage.Compile(context.Background(), "..", pkg, binary); err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	err := testimage.Build(context.Background(), &archive, testimage.Options{Ref: ref, Binary: binary, Env: []string{"FROM=image"}, Cmd: []string{"wait"}})
	return archive.Bytes(), err
}

// supervise lets the supervisor bring containerd up, and then leaves that running.
func (s *machine) supervise() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	supervisor, err := NewSupervisor(s.supervisor.cfg)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- supervisor.Run(ctx) }()
	select {
	case <-supervisor.Ready():
		cancel()
		return <-failed
	case err := <-failed:
		return fmt.Errorf("containerd did not come up: %w", err)
	}
}

// config is that of a peer on this containerd.
func (s *machine) config(log io.Writer, namespace, dir string) (Config, error) {
	self, err := os.Executable()
	return Config{
		Logger:     slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Socket:     s.supervisor.Socket(),
		Namespace:  namespace,
		StateDir:   dir,
		LoggerPath: self,
	}, err
}

// load brings the test images into a runtime's namespace.
func (s *machine) load(r *Runtime) error {
	for _, archive := range [][]byte{s.hello, s.probe} {
		if _, err := r.Images().Import(context.Background(), bytes.NewReader(archive)); err != nil {
			return fmt.Errorf("load the test images: %w", err)
		}
	}
	return nil
}

// loadShared brings the test images into the shared namespace.
func (s *machine) loadShared() error {
	cfg, err := s.config(io.Discard, sharedNamespace, s.dir)
	if err != nil {
		return err
	}
	r, err := New(cfg)
	if err != nil {
		return err
	}
	defer r.Close()
	return s.load(r)
}

func (s *machine) stop() {
	if err := s.supervisor.Stop(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.RemoveAll(s.dir)
}

// needRoot skips a test where there is no containerd to be had.
func needRoot(t testing.TB) *machine {
	t.Helper()
	if shared == nil {
		t.Skip("needs root, to run containers")
	}
	return shared
}
