package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"

	"starling.dev/starling/api/v1/apiv1connect"
	"starling.dev/starling/client"
	"starling.dev/starling/netstack/linux/lan"
)

// DataDir holds the data directories of labs.
const DataDir = "/var/lib/starling-lab"

// Config says how a lab is made. Name and Program are required.
type Config struct {
	Name string
	// Nodes is how many machines; only for Up.
	Nodes int
	// Program is the peer's program.
	Program string
	// CPU and Memory are what each machine offers to pods ("2", "2Gi"); by number, the
	// last one counts for the rest. Empty: all of the computer's.
	CPU, Memory []string
	// Network is the cluster's: "routed" or "lan"; empty for the default.
	Network string
	// WireGuard has the machines send what is between them through tunnels.
	WireGuard bool
	// Runtime starts and stops the containerd that all machines share. Required for Up,
	// Kill, Start and Down.
	Runtime Runtime
	// Progress is told what is being done, in words; may be nil.
	Progress func(format string, args ...any)
}

// Runtime is the lab's one containerd, in which each machine has its own namespace.
type Runtime interface {
	// Ensure makes it run, and returns its socket.
	Ensure(ctx context.Context, dir string) (socket string, err error)
	// Kill ends every container of a namespace at once, as a power cut would.
	Kill(ctx context.Context, socket, namespace string) error
	// Purge removes everything of a namespace.
	Purge(ctx context.Context, socket, namespace string) error
	// Stop ends the containerd that Ensure started; one of the system's is left alone.
	Stop(ctx context.Context, dir string) error
}

// Lab is one cluster on this computer.
type Lab struct {
	cfg   Config
	lan   *lan.LAN
	state state
}

// state is what the lab's file remembers.
type state struct {
	Nodes       int
	CPU, Memory []string
	Network     string `json:",omitempty"`
	WireGuard   bool
	Socket      string // of containerd
}

// Open finds a lab, or describes one that is to be made.
func Open(cfg Config) (*Lab, error) {
	if cfg.Progress == nil {
		cfg.Progress = func(string, ...any) {}
	}
	l := &Lab{cfg: cfg}
	raw, err := os.ReadFile(l.file())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.state = state{Nodes: cfg.Nodes, CPU: cfg.CPU, Memory: cfg.Memory, Network: cfg.Network, WireGuard: cfg.WireGuard}
	case err != nil:
		return nil, fmt.Errorf("read lab %s: %w", cfg.Name, err)
	default:
		if err := json.Unmarshal(raw, &l.state); err != nil {
			return nil, fmt.Errorf("read lab %s: %w", cfg.Name, err)
		}
	}
	l.lan, err = lan.New(lan.Config{Name: cfg.Name, Nodes: l.state.Nodes})
	return l, err
}

// Exists reports whether the lab was made.
func (l *Lab) Exists() bool {
	_, err := os.Stat(l.file())
	return err == nil
}

// Nodes is the number of machines.
func (l *Lab) Nodes() int { return l.state.Nodes }

func (l *Lab) dir() string  { return filepath.Join(DataDir, l.cfg.Name) }
func (l *Lab) file() string { return filepath.Join(l.dir(), "lab.json") }

func (l *Lab) nodeDir(n int) string { return filepath.Join(l.dir(), strconv.Itoa(n)) }

// Socket is where machine n takes commands.
func (l *Lab) Socket(n int) string { return client.LabSocket(l.cfg.Name, n) }

// Address is machine n's on the LAN.
func (l *Lab) Address(n int) netip.Addr { return l.lan.Node(n).IPv4.Addr() }

// AddressIPv6 is machine n's IPv6 address on the LAN.
func (l *Lab) AddressIPv6(n int) netip.Addr { return l.lan.Node(n).IPv6.Addr() }

// Namespace is machine n's in containerd, and the prefix of what it names.
func (l *Lab) Namespace(n int) string { return fmt.Sprintf("starling-%s-%d", l.cfg.Name, n) }

// Name is machine n's name in the cluster.
func Name(n int) string { return "m" + strconv.Itoa(n) }

// Within runs f on a thread in machine n's network namespace.
func (l *Lab) Within(n int, f func() error) error { return l.lan.Within(n, f) }

// Client speaks to machine n.
func (l *Lab) Client(n int) apiv1connect.StarlingClient { return client.New(l.Socket(n)) }

func (l *Lab) save() error {
	raw, err := json.Marshal(l.state)
	if err != nil {
		return fmt.Errorf("save lab %s: %w", l.cfg.Name, err)
	}
	if err := os.MkdirAll(l.dir(), 0o700); err != nil {
		return fmt.Errorf("save lab %s: %w", l.cfg.Name, err)
	}
	return os.WriteFile(l.file(), raw, 0o600)
}

// need says what is wrong with a machine's number.
func (l *Lab) need(n int) error {
	if !l.Exists() {
		return fmt.Errorf("there is no lab %s; make one with `peer lab up --nodes 3`", l.cfg.Name)
	}
	if n < 1 || n > l.state.Nodes {
		return fmt.Errorf("lab %s has machines 1 to %d, not %d", l.cfg.Name, l.state.Nodes, n)
	}
	return nil
}

// Partition cuts the machines into groups that can't hear each other.
func (l *Lab) Partition(groups [][]int) error {
	for _, g := range groups {
		for _, n := range g {
			if err := l.need(n); err != nil {
				return err
			}
		}
	}
	return l.lan.Partition(groups)
}

// Heal ends every partition.
func (l *Lab) Heal() error { return l.lan.Heal() }

// Loss makes every machine lose a percentage of what it receives.
func (l *Lab) Loss(percent float64) error { return l.lan.Loss(percent) }
