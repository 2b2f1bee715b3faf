package lan

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack"
	"starling.dev/starling/netstack/linux"
)

// MaxNodes is the most machines of one LAN: a bridge has 1,024 ports.
const MaxNodes = 1000

// Config names a LAN.
type Config struct {
	// Name of the lab. Required; letters, digits, '-' and '_'.
	Name string
	// Nodes is how many machines there are; Remove and RemoveNode need no number.
	Nodes int
	// Namespaces is the directory of named network namespaces;
	// linux.DefaultNamespaces if empty.
	Namespaces string
}

func (c Config) validate() error {
	if c.Nodes < 0 || c.Nodes > MaxNodes {
		return fmt.Errorf("%d machines: a lab has 1 to %d", c.Nodes, MaxNodes)
	}
	return netstack.CheckName("lab", c.Name)
}

// LAN is a bridge and its machines, numbered from 1.
type LAN struct {
	cfg Config
}

// New describes a LAN and makes nothing.
func New(cfg Config) (*LAN, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("configure the LAN: %w", err)
	}
	if cfg.Namespaces == "" {
		cfg.Namespaces = linux.DefaultNamespaces
	}
	return &LAN{cfg}, nil
}

// Node is one machine of a LAN.
type Node struct {
	N         int
	Namespace string // path of its network namespace
	IPv6      netip.Prefix
	IPv4      netip.Prefix
	MAC       net.HardwareAddr
}

// Node returns what the n-th machine has. Its link is eth0.
func (l *LAN) Node(n int) Node {
	sum := sha256.Sum256([]byte(l.cfg.Name))
	six := [16]byte{0: 0xfd, 14: byte(n >> 8), 15: byte(n)}
	copy(six[1:6], sum[:5])
	four := [4]byte{10, 64, byte(n >> 8), byte(n)}
	return Node{
		N:         n,
		Namespace: l.path(strconv.Itoa(n)),
		IPv6:      netip.PrefixFrom(netip.AddrFrom16(six), 64),
		IPv4:      netip.PrefixFrom(netip.AddrFrom4(four), 16),
		MAC:       net.HardwareAddr{0x02, 0x53, sum[0], sum[1], byte(n >> 8), byte(n)},
	}
}

// Nodes returns the machines that were described.
func (l *LAN) Nodes() []Node {
	nodes := make([]Node, l.cfg.Nodes)
	for i := range nodes {
		nodes[i] = l.Node(i + 1)
	}
	return nodes
}

const switchName = "lan"

// path is where a machine's namespace, or the bridge's, is bound.
func (l *LAN) path(part string) string {
	return filepath.Join(l.cfg.Namespaces, l.prefix()+part)
}

func (l *LAN) prefix() string { return "starling-lab." + l.cfg.Name + "." }

// Within runs f on a thread in the n-th machine's namespace, and waits for it.
// Processes that f starts live there.
func (l *LAN) Within(n int, f func() error) error {
	return l.within(strconv.Itoa(n), f)
}

func (l *LAN) within(part string, f func() error) error {
	fd, err := linux.OpenNamespace(l.path(part))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("lab %s has no machine %s: %w", l.cfg.Name, part, err)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return linux.Within(fd, f)
}

// Up makes what is missing of the LAN and of its machines.
func (l *LAN) Up(ctx context.Context) error {
	bridge, err := l.open(switchName)
	if err != nil {
		return err
	}
	defer bridge.close()
	if err := bridge.makeBridge(); err != nil {
		return fmt.Errorf("make the bridge of lab %s: %w", l.cfg.Name, err)
	}
	var fresh []Node // a cable that was there may be pulled, and is left so
	for _, node := range l.Nodes() {
		if err := ctx.Err(); err != nil {
			return err
		}
		plugged, err := l.plug(bridge, node)
		if plugged {
			fresh = append(fresh, node)
		}
		if err != nil {
			return fmt.Errorf("make machine %d of lab %s: %w", node.N, l.cfg.Name, err)
		}
	}
	for _, node := range fresh {
		if err := l.settle(ctx, bridge, node); err != nil {
			return fmt.Errorf("wait for machine %d of lab %s: %w", node.N, l.cfg.Name, err)
		}
	}
	return nil
}

// settle waits until both ends of the machine's cable work.
func (l *LAN) settle(ctx context.Context, bridge *space, node Node) error {
	if err := linux.Settle(ctx, bridge.fd, port(node.N), netip.Addr{}); err != nil {
		return err
	}
	machine, err := l.open(strconv.Itoa(node.N))
	if err != nil {
		return err
	}
	defer machine.close()
	return linux.Settle(ctx, machine.fd, eth0, node.IPv6.Addr())
}

// plug joins a machine to the bridge, unless it is joined already.
func (l *LAN) plug(bridge *space, node Node) (fresh bool, err error) {
	machine, err := l.open(strconv.Itoa(node.N))
	if err != nil {
		return false, err
	}
	defer machine.close()
	fresh, err = bridge.addPort(port(node.N), machine, node.MAC)
	if err != nil {
		return fresh, err
	}
	return fresh, machine.configure(node)
}

func port(n int) string { return "m" + strconv.Itoa(n) }

// LinkDown pulls the n-th machine's cable: its eth0 loses the carrier.
func (l *LAN) LinkDown(n int) error { return l.setPort(n, false) }

// LinkUp plugs it in again.
func (l *LAN) LinkUp(n int) error { return l.setPort(n, true) }

func (l *LAN) setPort(n int, up bool) error {
	bridge, err := l.open(switchName)
	if err != nil {
		return err
	}
	defer bridge.close()
	if err := bridge.setPort(port(n), up); err != nil {
		return fmt.Errorf("set the port of machine %d of lab %s: %w", n, l.cfg.Name, err)
	}
	return nil
}

// Remove removes the LAN and all its machines, whoever made them. Processes that still
// run there lose their network; ending them is the caller's part, and comes first.
func (l *LAN) Remove() error {
	entries, err := os.ReadDir(l.cfg.Namespaces)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list network namespaces: %w", err)
	}
	// The bridge goes first, and its ports with it: a machine's namespace may be kept
	// alive by a process, and must not stay connected.
	errs := []error{l.unplugAll()}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), l.prefix()) {
			errs = append(errs, linux.RemoveNamespace(filepath.Join(l.cfg.Namespaces, e.Name())))
		}
	}
	return errors.Join(errs...)
}

func (l *LAN) unplugAll() error {
	fd, err := linux.OpenNamespace(l.path(switchName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	bridge, err := newSpace(fd)
	if err != nil {
		return err
	}
	defer bridge.close()
	return bridge.deletePorts()
}
