package daemon

import (
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/gossip"
	"starling.dev/starling/identity"
	"starling.dev/starling/netstack/linux"
)

// Defaults of a machine that runs one peer.
const (
	DefaultData      = "/var/lib/starling"
	DefaultSocket    = "/run/starling/peer.sock"
	DefaultNamespace = "starling"
)

// Config says where a peer lives. Empty fields take their defaults.
type Config struct {
	// Data is the data directory. Default: DefaultData.
	Data string
	// Socket is where commands reach the peer. Default: DefaultSocket.
	Socket string
	// Name is the machine's name, taken when a cluster is begun or joined. Default:
	// the first label of the host's name.
	Name string
	// Cluster is the name of a cluster that begins here. Default: "starling".
	Cluster string
	// Network is how pods of a cluster that begins here get their addresses: "routed",
	// "lan" or "cloud". Default: routed. Machines that join find it in the cluster.
	Network string
	// Bind is the address that both ports listen on. Default: all.
	Bind netip.Addr
	// GossipPort and StreamPort. Defaults: 7946, 7947.
	GossipPort, StreamPort uint16
	// Advertise is the address that others are told. Default: the source address
	// towards the other machines.
	Advertise netip.Addr
	// ContainerdSocket is the system's containerd. Default: oci.SystemSocket.
	ContainerdSocket string
	// Namespace is the peer's own containerd namespace, and the prefix of what it names
	// on the machine. Default: DefaultNamespace.
	Namespace string
	// MachineID overrides /etc/machine-id.
	MachineID string
	// CPU (thousandths of a core) and Memory (bytes) override what the machine has.
	CPU, Memory int64
	// WireGuard says whether this machine is to have a WireGuard device; it is remembered.
	// Nil: as it was.
	WireGuard *bool
	// Registries are spoken to without TLS.
	Registries []string
	// RegistryAuth is a file with credentials for registries, as containers-auth.json(5)
	// describes it. Default: auth.json in Data.
	RegistryAuth string
	// LogBudget is how many bytes this machine's own log may take on each machine's disk
	// before old results of steps are compacted. Default: that of package peer.
	LogBudget int64
	// ClockOffset is added to the machine's clock, so that a lab can rehearse one that
	// is wrong.
	ClockOffset time.Duration
	// Version of the program, for the machine's status.
	Version string
	Logger  *slog.Logger // required
}

func (c Config) withDefaults() Config {
	set := func(s *string, value string) {
		if *s == "" {
			*s = value
		}
	}
	set(&c.Data, DefaultData)
	set(&c.Socket, DefaultSocket)
	set(&c.Name, hostName())
	set(&c.Cluster, "starling")
	set(&c.Namespace, DefaultNamespace)
	set(&c.MachineID, machineID())
	set(&c.RegistryAuth, filepath.Join(c.Data, "auth.json"))
	if c.GossipPort == 0 {
		c.GossipPort = gossip.DefaultGossipPort
	}
	if c.StreamPort == 0 {
		c.StreamPort = gossip.DefaultStreamPort
	}
	if !c.Bind.IsValid() {
		c.Bind = netip.IPv6Unspecified()
	}
	return c
}

func (c Config) validate() error {
	if c.Logger == nil {
		return errors.New("configure peer: Logger is required")
	}
	if os.Geteuid() != 0 {
		return api.Errorf(api.NoRoot, "a peer runs containers and sets up networks, which takes root; run it with sudo, or install it with `sudo peer install`")
	}
	if !filepath.IsAbs(c.Data) || !filepath.IsAbs(c.Socket) {
		return api.Errorf(api.Invalid, "the data directory %q and the socket %q must be absolute paths", c.Data, c.Socket)
	}
	switch linux.Mode(c.Network) {
	case "", linux.Routed, linux.Lan, linux.Cloud:
	default:
		return api.Errorf(api.Invalid, "network %q: write %s, %s or %s", c.Network, linux.Routed, linux.Lan, linux.Cloud)
	}
	return identity.CheckName(c.Name)
}

// now reads the clock that the core lives by.
func (c Config) now() time.Time { return time.Now().Add(c.ClockOffset) }

func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "machine"
	}
	name, _, _ = strings.Cut(strings.ToLower(name), ".")
	if identity.CheckName(name) != nil {
		return "machine"
	}
	return name
}

func machineID() string {
	raw, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}
