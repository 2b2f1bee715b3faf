package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/api/v1/apiv1connect"
	"starling.dev/starling/loops"
	"starling.dev/starling/oci"
	"starling.dev/starling/peer"
)

// leaseDir is where the ends of leases stand: like the clock that they are of, it begins
// anew with the machine.
const leaseDir = "/run/starling/leases"

// buildRuntime uses the system's containerd if there is one, else one that this peer
// supervises.
func (d *Daemon) buildRuntime(ctx context.Context) error {
	log := d.cfg.Logger.With("part", "containers")
	socket, err := d.containerd(ctx)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the peer's own program: %w", err)
	}
	d.runtime, err = oci.New(oci.Config{
		Logger: log, Socket: socket, Namespace: d.cfg.Namespace, StateDir: filepath.Join(d.cfg.Data, "pods"),
		LoggerPath: self, PlainHTTP: d.cfg.Registries, AuthFile: d.cfg.RegistryAuth,
		Fetcher: fetcher{d}, BeforeStop: d.follower.Drain,
	})
	if err != nil {
		return err
	}
	d.facts.version = d.runtime.Version
	d.leases, err = oci.NewLeases(oci.LeaseConfig{
		Logger: log, Dir: filepath.Join(leaseDir, d.cfg.Namespace), Namespace: d.cfg.Namespace, GuardPath: self,
	})
	return err
}

func (d *Daemon) containerd(ctx context.Context) (socket string, err error) {
	s, err := oci.NewSupervisor(oci.SupervisorConfig{Logger: d.cfg.Logger.With("part", "containerd"), Dir: filepath.Join(d.cfg.Data, "containerd")})
	if err != nil {
		return "", err
	}
	socket = d.cfg.ContainerdSocket
	if socket == "" {
		socket = oci.SystemSocket
	}
	if !s.HasRun() && oci.Answers(ctx, socket) {
		return socket, nil
	}
	if d.cfg.ContainerdSocket != "" {
		return "", api.Errorf(api.RuntimeUnavailable, "no containerd answers at %s; start it, or leave the option out so that the peer runs its own", socket)
	}
	if _, err := exec.LookPath("containerd"); err != nil {
		return "", api.Errorf(api.RuntimeUnavailable, "there is no containerd on this machine; install it with `apt-get install containerd`")
	}
	d.add(s)
	return s.Socket(), nil
}

// watchExits tells the core of containers that ended by themselves.
func (d *Daemon) watchExits(ctx context.Context) error {
	return d.runtime.Watch(ctx, func(e loops.Exit) {
		var key api.Key
		restart := ""
		err := d.loop.Query(ctx, func(c *peer.Core) {
			if seen, ok := c.ByID(e.PodID); ok {
				key, restart = seen.Key, seen.Fields.String("spec.restart")
			}
		})
		if err != nil || key.Name == "" {
			return
		}
		failed, code, message := loops.AfterExit(restart, e)
		if !failed {
			d.loop.Post(ctx, peer.Again{Key: key, ID: e.PodID, Step: "container"})
			return
		}
		d.loop.Post(ctx, peer.Lost{Key: key, ID: e.PodID, Step: "container", At: e.At, Code: code, Message: message})
	})
}

// serverRuntime is the runtime as the API server sees it.
type serverRuntime struct {
	*oci.Runtime
	need oci.Need
}

func (r serverRuntime) List(ctx context.Context) ([]oci.Image, error) { return r.Images().List(ctx) }

// serverNetwork is the machine's network as the API server sees it.
type serverNetwork struct{ d *Daemon }

func (n serverNetwork) State(ctx context.Context) (string, error) {
	text, err := n.d.network.State(ctx)
	tunnels, failed := n.tunnelState()
	translated, lost := n.translationState()
	return text + translated + tunnels + n.d.follower.state(), errors.Join(err, failed, lost)
}

func (n serverNetwork) Findings(ctx context.Context) ([]*apiv1.Finding, error) {
	list, err := n.d.network.Doctor(ctx)
	var out []*apiv1.Finding
	for _, f := range list {
		out = append(out, &apiv1.Finding{What: f.Check, Rule: f.Problem, Remedy: f.Remedy})
	}
	return out, err
}

// dialTimeout bounds the connection to a port of a pod on this machine.
const dialTimeout = 5 * time.Second

func (n serverNetwork) Dial(ctx context.Context, podID string, port uint16) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return oci.DialPod(ctx, n.d.network.NamespacePath(podID), port)
}

func (r serverRuntime) Import(ctx context.Context, in io.Reader) ([]oci.Image, error) {
	return r.Images().Import(ctx, in)
}

func (r serverRuntime) Discard(ctx context.Context, ref string) (oci.Image, error) {
	return r.Images().Discard(ctx, ref, r.need)
}

func (r serverRuntime) Prune(ctx context.Context) ([]oci.Image, error) {
	return r.Images().Collect(ctx, r.need, 0)
}

func (r serverRuntime) Export(ctx context.Context, ref string, w io.Writer) error {
	return r.Images().Export(ctx, ref, w)
}

// fetcher brings an image from another machine of the cluster.
type fetcher struct{ d *Daemon }

// Fetch asks the members that can be reached, one after the other.
func (f fetcher) Fetch(ctx context.Context, ref string, w io.Writer) error {
	for _, id := range f.d.transport.Connected() {
		c := apiv1connect.NewStarlingClient(f.d.transport.HTTPClient(id), "https://"+id.String())
		written, err := fetchFrom(ctx, c, ref, w)
		if err == nil {
			return nil
		}
		if written || ctx.Err() != nil {
			return fmt.Errorf("fetch image %s from another machine: %w", ref, err)
		}
	}
	return oci.ErrNotHeld
}

func fetchFrom(ctx context.Context, c apiv1connect.StarlingClient, ref string, w io.Writer) (written bool, err error) {
	in, err := c.ExportImage(ctx, &apiv1.ExportImageRequest{Ref: ref})
	if err != nil {
		return false, err
	}
	defer in.Close()
	for in.Receive() {
		written = true
		if _, err := w.Write(in.Msg().GetData()); err != nil {
			return written, err
		}
	}
	return written, in.Err()
}
