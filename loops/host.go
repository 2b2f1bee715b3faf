package loops

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"starling.dev/starling/netstack"
)

// Host is the machine that acting steps work on. Its parts are owned by their
// implementers; all methods may be called concurrently for different pods.
type Host interface {
	Images() Images
	Containers() Containers
	Network() Network
	Volumes() Volumes
	Facts() Facts
}

// Images makes images available on the machine.
type Images interface {
	// Ensure makes ref present and unpacked, from what the machine holds, from other
	// peers, or from its registry, and returns its manifest digest
	// ("sha256:…"). Idempotent. A *lifecycle.Error with code ImageNotFound,
	// RegistryUnreachable, ImagePlatform or Unauthorized says why it can't.
	Ensure(ctx context.Context, ref string) (digest string, err error)
}

// Containers runs a pod's containers.
type Containers interface {
	// Ensure makes the pod's containers run as specified and returns one status per
	// container. Idempotent: a container whose Spec is unchanged and that runs is
	// adopted and left alone; one whose Spec changed gets its successor task created
	// before the old one is stopped; one that is no longer listed is stopped and
	// removed; one that exited is started again unless Restart says otherwise.
	Ensure(ctx context.Context, pod PodSandbox, specs []ContainerSpec) ([]ContainerStatus, error)
	// Remove stops (signal, grace, then kill) and removes all containers of the pod.
	// Idempotent.
	Remove(ctx context.Context, podID string) error
}

// PodSandbox is where a pod's containers run.
type PodSandbox struct {
	ID        string // the object's identity, hex
	Namespace string
	Name      string
	NetNS     string // path of the pod's network namespace
	Hostname  string
	Resolv    string // content of /etc/resolv.conf
	Hosts     string // content of /etc/hosts
	Stop      StopSpec
	// Rerun changes when a person asks for a restart; it is part of what makes a
	// container's spec differ.
	Rerun string
}

// StopSpec says how a container is asked to end.
type StopSpec struct {
	Signal string        // "SIGTERM"
	Grace  time.Duration // then SIGKILL
}

// ContainerSpec is one container as it should run.
type ContainerSpec struct {
	Name    string
	Image   string // reference
	Digest  string // resolved manifest digest
	Command []string
	Args    []string
	Env     map[string]string
	WorkDir string
	User    string
	CPU     int64             // thousandths of a core; 0: no limit
	Memory  int64             // bytes; 0: no limit
	Restart string            // always | on-failure | never
	Mounts  []Mount           // sorted by Target
	Runtime string            // OCI runtime name; empty: the default
	Ports   map[string]uint16 // by name
}

// Mount binds a directory of the machine into a container.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// ContainerStatus is what Ensure found or made. Only facts that stay true while
// the container runs: no measurements.
type ContainerStatus struct {
	Name      string
	ID        string // containerd container ID
	PID       uint32
	Digest    string
	StartedAt time.Time
	Restarts  uint32
	// Exited is set for a container that ended and is not to be started again.
	Exited   bool
	ExitCode uint32
}

// Exit reports that a container ended by itself.
type Exit struct {
	PodID, Container string
	Code             uint32
	OOM              bool
	At               time.Time
	// LastLines are the last lines (20 at most) of its output.
	LastLines []string
}

// Network connects a pod to the cluster's network.
type Network interface {
	// Attach makes the pod's network namespace with its address, and returns the
	// path of the namespace. Idempotent: it repairs what is missing and keeps
	// what is there. A *PortInUse names a host port that another program has, a *LinkMissing
	// a link of the machine that an interface needs; all else is connected then.
	Attach(ctx context.Context, pod PodNetwork) (netnsPath string, err error)
	// Detach removes the namespace and everything that Attach made. Idempotent.
	Detach(ctx context.Context, podID string) error
	// Routes makes the machine route to the other machines' prefixes as listed, and
	// nothing else of ours. Idempotent; adopts what an earlier run left.
	Routes(ctx context.Context, plan RoutePlan) error
}

// PodNetwork is one pod's place in the network.
type PodNetwork struct {
	ID      string
	Name    string
	Address netip.Addr // the pod's one IPv6 address
	IPv4    string     // masquerade | clat | none
	// HostPorts are ports of the machine that are to lead to the pod.
	HostPorts []HostPort
	// Interfaces are the pod's further links, sorted by name. Whether what each attaches to is
	// a bridge, and its MTU, is for the machine to find out.
	Interfaces []netstack.Interface
}

// LinkMissing says that a link of the machine which an interface of a pod attaches to is
// not there, or can't serve.
type LinkMissing struct {
	Interface, Link string
	Why             string // "there is no such link"
}

// Error names the interface, the link and what is wrong with it.
func (e *LinkMissing) Error() string {
	return fmt.Sprintf("interface %s attaches to %s: %s", e.Interface, e.Link, e.Why)
}

// PortInUse says that a program on the machine listens on a host port of a pod.
type PortInUse struct {
	Port uint16
	By   string // "nginx (pid 812)"
}

// Error names the port and the program.
func (e *PortInUse) Error() string {
	return portInUse(e.Port, e.By)
}

// RoutePlan is what the machine's part of the cluster network should be.
type RoutePlan struct {
	Cluster netip.Prefix // the cluster's /48
	Own     netip.Prefix // this machine's /96
	Routes  []Route      // sorted by Prefix
	Tunnels []TunnelPeer // the machines that are reached by tunnels
}

// Route sends a prefix (a machine's /96, or one moved pod's /128) to a machine.
type Route struct {
	Prefix  netip.Prefix
	Machine string
	Via     netip.Addr // the machine's address on the LAN
	Tunnel  bool       // by a tunnel to the machine instead
}

// Volumes keeps directories for pods.
type Volumes interface {
	// Ensure makes the directory of the pod's volume and returns its path. Idempotent.
	Ensure(ctx context.Context, podID, name string) (path string, err error)
	// Release gives the pod's volumes up; they are kept for the hold (24 h) first.
	Release(ctx context.Context, podID string) error
}

// Facts reads what the machine is.
type Facts interface {
	// Probe returns the machine's inventory.
	Probe(ctx context.Context) (MachineFacts, error)
	// RuntimeReady checks the container runtime and returns its name and version
	// ("containerd 1.6.20").
	RuntimeReady(ctx context.Context) (string, error)
	// ClusterPrefix is the cluster's /48, OwnPrefix this machine's /96 of it. Both
	// follow from identities and never change.
	ClusterPrefix() netip.Prefix
	OwnPrefix() netip.Prefix
}

// MachineFacts is a machine's capacity and description.
type MachineFacts struct {
	CPU          int64 // thousandths of a core
	Memory       int64 // bytes
	OS           string
	Kernel       string
	Architecture string
	Version      string // of this program
	Level        int    // the highest that this program supports
	Address      string // at which the other machines reach this one
	// LAN is the LAN's /64 that pods have their addresses from; zero in mode routed.
	LAN netip.Prefix
	// Delegated: a foreign loop gives pods their addresses, in mode cloud.
	Delegated bool
	// Listening names the programs that listen on ports which pods want of a machine.
	Listening map[uint16]string
}
