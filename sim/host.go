package sim

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
	"starling.dev/starling/netstack"
	"starling.dev/starling/peer"
)

// host is what a machine really has and runs: the invariants look here, not at what
// peers say.
type host struct {
	m      *machine
	cpu    int64
	memory int64
	images map[string]bool
	pods   map[string]*instance
	nets   map[string]loops.PodNetwork // by pod ID
	routes loops.RoutePlan
	pids   uint32
	// leases are what the guards know: it outlives the peer, and ends with the machine.
	leases map[string]loops.Lease
	// detached: the programs of people's loops do not run here.
	detached bool
}

// instance is a pod that runs here.
type instance struct {
	id, name   string
	containers map[string]*container
}

type container struct {
	spec     loops.ContainerSpec
	rerun    string
	status   loops.ContainerStatus
	restarts uint32
}

func newHost(m *machine) *host {
	r := m.w.random.host
	cpu, memory := 500*(3+r.Int64N(6)), (512<<20)*(2+r.Int64N(7))
	if m.w.weather.tight {
		cpu, memory = 900, 1<<30
	}
	return &host{
		m: m, cpu: cpu, memory: memory,
		images: map[string]bool{}, pods: map[string]*instance{}, nets: map[string]loops.PodNetwork{}, leases: map[string]loops.Lease{},
	}
}

// powerOff ends whatever runs; images and volumes are on the machine's disk.
func (h *host) powerOff() {
	h.pods, h.nets, h.routes = map[string]*instance{}, map[string]loops.PodNetwork{}, loops.RoutePlan{}
	h.leases = map[string]loops.Lease{}
}

// used sums what the pods that run here were given.
func (h *host) used() (cpu, memory int64) {
	for _, in := range h.pods {
		c, m := in.given()
		cpu, memory = cpu+c, memory+m
	}
	return cpu, memory
}

// given sums what the pod's containers were given.
func (in *instance) given() (cpu, memory int64) {
	for _, c := range in.containers {
		cpu, memory = cpu+c.spec.CPU, memory+c.spec.Memory
	}
	return cpu, memory
}

// The parts of loops.Host.

func (h *host) Images() loops.Images         { return hostImages{h} }
func (h *host) Containers() loops.Containers { return hostContainers{h} }
func (h *host) Network() loops.Network       { return hostNetwork{h} }
func (h *host) Volumes() loops.Volumes       { return hostVolumes{} }
func (h *host) Facts() loops.Facts           { return hostFacts{h} }

// Images with a meaning of their own.
const (
	imageGood    = "localhost/hello:1"
	imageMissing = "localhost/missing:1" // nobody has it
	imageCrash   = "localhost/crash:1"   // ends soon after each start
)

type hostImages struct{ h *host }

func (i hostImages) Ensure(_ context.Context, ref string) (string, error) {
	if ref == imageMissing {
		return "", &lifecycle.Error{Code: api.ImageNotFound, Message: fmt.Sprintf("image %s is not on %s, and no registry has it", ref, i.h.m.name)}
	}
	i.h.images[ref] = true
	return "sha256:" + ref, nil
}

type hostContainers struct{ h *host }

// Ensure makes the pod's containers run as the interface demands.
func (c hostContainers) Ensure(_ context.Context, pod loops.PodSandbox, specs []loops.ContainerSpec) ([]loops.ContainerStatus, error) {
	h := c.h
	if _, attached := h.nets[pod.ID]; !attached {
		return nil, fmt.Errorf("start containers of %s: its network namespace is gone", pod.Name)
	}
	in := h.pods[pod.ID]
	if in == nil {
		in = &instance{id: pod.ID, name: pod.Name, containers: map[string]*container{}}
		h.pods[pod.ID] = in
	}
	wanted := map[string]bool{}
	var out []loops.ContainerStatus
	for _, s := range specs {
		wanted[s.Name] = true
		out = append(out, h.ensure(in, pod, s))
	}
	maps.DeleteFunc(in.containers, func(name string, _ *container) bool { return !wanted[name] })
	h.m.w.check.hosted(h)
	h.m.w.check.alone(h, in)
	return out, nil
}

func (h *host) ensure(in *instance, pod loops.PodSandbox, s loops.ContainerSpec) loops.ContainerStatus {
	old := in.containers[s.Name]
	same := old != nil && old.rerun == pod.Rerun && fmt.Sprint(old.spec) == fmt.Sprint(s)
	switch {
	case same && !old.status.Exited:
		return old.status
	case same && (s.Restart == api.RestartNever || s.Restart == api.RestartOnFailure && old.status.ExitCode == 0):
		return old.status
	case same:
		old.restarts++
		h.run(in, old)
		return old.status
	}
	next := &container{spec: s, rerun: pod.Rerun}
	in.containers[s.Name] = next
	h.run(in, next)
	return next.status
}

// run starts a container. Its life may be short.
func (h *host) run(in *instance, c *container) {
	h.pids++
	w := h.m.w
	c.status = loops.ContainerStatus{
		Name: c.spec.Name, ID: fmt.Sprintf("%s-%s-%d", in.id, c.spec.Name, h.pids), PID: h.pids,
		Digest: c.spec.Digest, StartedAt: h.m.clock(), Restarts: c.restarts,
	}
	w.say("%s runs %s/%s", h.m.name, in.name, c.spec.Name)
	switch {
	case c.spec.Image == imageCrash:
		h.exitLater(in, c, w.random.host.between(50*time.Millisecond, time.Second))
	case w.faulty && w.weather.exit > 0:
		h.exitLater(in, c, w.random.host.about(w.weather.exit))
	}
}

func (h *host) exitLater(in *instance, c *container, life time.Duration) {
	pid := c.status.PID
	h.m.w.after(life, func() {
		if c.status.PID == pid && h.pods[in.id] == in && (h.m.w.faulty || c.spec.Image == imageCrash) {
			h.exit(in, c, 1)
		}
	})
}

// exit ends a container, and tells the peer as the daemon does. A peer that is down
// finds out when it adopts what runs.
func (h *host) exit(in *instance, c *container, code uint32) {
	if c.status.Exited || in.containers[c.spec.Name] != c {
		return
	}
	c.status.Exited, c.status.ExitCode = true, code
	h.m.w.sometimes("a container ends by itself")
	if h.m.core == nil {
		return
	}
	seen, ok := h.m.core.ByID(in.id)
	if !ok {
		return
	}
	e := loops.Exit{PodID: in.id, Container: c.spec.Name, Code: code, At: h.m.clock()}
	failed, why, message := loops.AfterExit(seen.Fields.String("spec.restart"), e)
	if !failed {
		h.m.post(peer.Again{Key: seen.Key, ID: in.id, Step: "container"})
		return
	}
	h.m.post(peer.Lost{Key: seen.Key, ID: in.id, Step: "container", At: e.At, Code: why, Message: message})
}

func (c hostContainers) Remove(_ context.Context, id string) error {
	if in := c.h.pods[id]; in != nil {
		c.h.m.w.say("%s stops %s", c.h.m.name, in.name)
		delete(c.h.pods, id)
	}
	return nil
}

type hostNetwork struct{ h *host }

func (n hostNetwork) Attach(_ context.Context, p loops.PodNetwork) (string, error) {
	n.h.checkPorts(p)
	n.h.nets[p.ID] = p
	return "/run/netns/" + p.ID, nil
}

// checkPorts is invariant 6 for host ports: each leads to one pod.
func (h *host) checkPorts(p loops.PodNetwork) {
	for _, id := range slices.Sorted(maps.Keys(h.nets)) {
		for _, have := range h.nets[id].HostPorts {
			taken := slices.ContainsFunc(p.HostPorts, func(want loops.HostPort) bool { return want.Host == have.Host })
			if id != p.ID && taken {
				h.m.w.fail(6, "%s connects pod %s to host port %d, which leads to pod %s", h.m.name, p.ID, have.Host, id)
			}
		}
	}
	if len(p.HostPorts) > 0 {
		h.m.w.sometimes("a pod has a host port")
	}
}

func (n hostNetwork) Detach(_ context.Context, id string) error {
	if _, runs := n.h.pods[id]; runs {
		n.h.m.w.fail(6, "%s takes the network from pod %s, whose containers run", n.h.m.name, id)
	}
	delete(n.h.nets, id)
	return nil
}

func (n hostNetwork) Routes(_ context.Context, p loops.RoutePlan) error {
	n.h.routes = p
	return nil
}

type hostVolumes struct{}

func (hostVolumes) Ensure(_ context.Context, id, name string) (string, error) {
	return "/volumes/" + id + "/" + name, nil
}

func (hostVolumes) Release(context.Context, string) error { return nil }

type hostFacts struct{ h *host }

func (f hostFacts) Probe(context.Context) (loops.MachineFacts, error) {
	return loops.MachineFacts{
		CPU: f.h.cpu, Memory: f.h.memory, OS: "simulated", Kernel: "1", Architecture: "amd64", Version: "sim", Level: 1,
		Address: netip.AddrFrom4([4]byte{192, 0, 2, byte(f.h.m.index + 1)}).String(),
	}, nil
}

func (f hostFacts) RuntimeReady(context.Context) (string, error) { return "simulated 1", nil }

func (f hostFacts) ClusterPrefix() netip.Prefix {
	id := f.h.m.w.genesis.ID()
	return netstack.ClusterPrefix(id[:])
}

func (f hostFacts) OwnPrefix() netip.Prefix {
	return netstack.MachinePrefix(f.ClusterPrefix(), f.h.m.id[:])
}

// sortedIDs lists the keys of a map in order: no order of a map may reach an event.
func sortedIDs[K interface{ ~string | ~uint64 }, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}
