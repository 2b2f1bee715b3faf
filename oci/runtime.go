package oci

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/defaults"
	"github.com/containerd/containerd/v2/pkg/namespaces"
)

// Runtime is this peer's part of one containerd. Its methods may be called
// concurrently; work on one pod is serialised.
type Runtime struct {
	cfg    Config
	client *containerd.Client
	// pods serialises what changes a pod, by pod ID; refs what brings an image, by
	// reference.
	pods, refs keyedMutex
	// collecting keeps images from being collected while one that is here is settled for
	// a pod. Taken after refs.
	collecting sync.RWMutex
	board      exitBoard
}

// New returns a Runtime. It does not connect: containerd may appear, go and come
// back at any time, and calls made meanwhile fail with what is wrong.
func New(cfg Config) (*Runtime, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Snapshotter == "" {
		cfg.Snapshotter = "overlayfs"
	}
	cfg.Log = cfg.Log.withDefaults()
	client, err := containerd.New(cfg.Socket,
		containerd.WithDefaultNamespace(cfg.Namespace),
		containerd.WithDefaultRuntime(defaults.DefaultRuntime),
		containerd.WithTimeout(2*time.Second))
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to containerd at %s: %w", cfg.Socket, err)
	}
	return &Runtime{cfg: cfg, client: client, board: newExitBoard()}, nil
}

// Close ends the connection. Containers go on running.
func (r *Runtime) Close() error { return r.client.Close() }

// Images returns the runtime's images, a loops.Images.
func (r *Runtime) Images() *Images { return &Images{r} }

// Containers returns the runtime's containers, a loops.Containers.
func (r *Runtime) Containers() *Containers { return &Containers{r} }

// Version asks containerd for its version and returns "containerd 1.6.20".
func (r *Runtime) Version(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(r.in(ctx), 5*time.Second)
	defer cancel()
	v, err := r.client.Version(ctx)
	if err != nil {
		return "", &unreachable{socket: r.cfg.Socket, cause: err}
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(v.Version, "v"), "~")
	return "containerd " + version, nil
}

// in returns a context for calls in the peer's containerd namespace.
func (r *Runtime) in(ctx context.Context) context.Context {
	return namespaces.WithNamespace(ctx, r.cfg.Namespace)
}

// Answers tells whether a containerd serves at the socket.
func Answers(ctx context.Context, socket string) bool {
	client, err := containerd.New(socket, containerd.WithTimeout(time.Second))
	if err != nil {
		return false
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err = client.Version(ctx)
	return err == nil
}
