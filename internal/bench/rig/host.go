package rig

import (
	"context"
	"net/netip"
	"time"

	"starling.dev/starling/loops"
)

// host does everything at once: what it costs is the peer's own work.
type host struct{ facts loops.MachineFacts }

func newHost(address string) *host {
	return &host{loops.MachineFacts{
		CPU: 1 << 40, Memory: 1 << 60, OS: "bench", Kernel: "1", Architecture: "amd64", Version: "bench", Level: 1, Address: address,
	}}
}

func (h *host) Images() loops.Images         { return images{} }
func (h *host) Containers() loops.Containers { return containers{} }
func (h *host) Network() loops.Network       { return network{} }
func (h *host) Volumes() loops.Volumes       { return volumes{} }
func (h *host) Facts() loops.Facts           { return h }

func (h *host) Probe(context.Context) (loops.MachineFacts, error) { return h.facts, nil }
func (h *host) RuntimeReady(context.Context) (string, error)      { return "bench 1", nil }
func (h *host) ClusterPrefix() netip.Prefix                       { return netip.MustParsePrefix("fd00::/48") }
func (h *host) OwnPrefix() netip.Prefix                           { return netip.MustParsePrefix("fd00:0:0:1::/96") }

type images struct{}

func (images) Ensure(context.Context, string) (string, error) {
	return "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", nil
}

type containers struct{}

func (containers) Ensure(_ context.Context, _ loops.PodSandbox, specs []loops.ContainerSpec) ([]loops.ContainerStatus, error) {
	all := make([]loops.ContainerStatus, 0, len(specs))
	for _, s := range specs {
		all = append(all, loops.ContainerStatus{Name: s.Name, ID: s.Name, PID: 4242, Digest: s.Digest, StartedAt: time.Now()})
	}
	return all, nil
}

func (containers) Remove(context.Context, string) error { return nil }

type network struct{}

func (network) Attach(_ context.Context, p loops.PodNetwork) (string, error) {
	return "/run/netns/" + p.ID, nil
}
func (network) Detach(context.Context, string) error          { return nil }
func (network) Routes(context.Context, loops.RoutePlan) error { return nil }

type volumes struct{}

func (volumes) Ensure(_ context.Context, id, name string) (string, error) {
	return "/volumes/" + id + "/" + name, nil
}
func (volumes) Release(context.Context, string) error { return nil }
