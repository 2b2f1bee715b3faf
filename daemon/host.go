package daemon

import (
	"bufio"
	"context"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
	"starling.dev/starling/oci"
	"starling.dev/starling/peer"
	"starling.dev/starling/server"
)

// host is the machine that steps act on.
type host struct {
	images     loops.Images
	containers loops.Containers
	network    loops.Network
	volumes    *volumes
	facts      *facts
	programs   foreign
	leases     *oci.Leases
	tunnels    tunnels
}

func (h *host) Images() loops.Images         { return h.images }
func (h *host) Containers() loops.Containers { return h.containers }
func (h *host) Network() loops.Network       { return h.network }
func (h *host) Volumes() loops.Volumes       { return h.volumes }
func (h *host) Facts() loops.Facts           { return h.facts }
func (h *host) Leases() loops.Leases         { return h.leases }
func (h *host) Tunnels() loops.Tunnels       { return h.tunnels }
func (h *host) Foreign() loops.Foreign       { return h.programs }

// foreign calls the loops that are attached to this peer.
type foreign struct{ *server.Programs }

func (f foreign) Call(ctx context.Context, c loops.ForeignCall) (lifecycle.Outputs, error) {
	return f.Programs.Call(ctx, c.Loop, c.Step, c.Undo, c.Inputs)
}

// facts reads what the machine is.
type facts struct {
	cfg          Config
	cluster, own netip.Prefix
	version      func(context.Context) (string, error) // of the container runtime
	// address is the one that others reach this machine at; it may change.
	address atomic.Pointer[netip.Addr]
	// delegated: the cluster's network is cloud.
	delegated bool
	// lan finds the LAN's prefix; nil in mode routed.
	lan func() (netip.Prefix, error)
	// lanKnown is what the inventory last said of it.
	lanKnown atomic.Pointer[netip.Prefix]
	// listening names the programs on ports that pods want.
	listening atomic.Pointer[map[uint16]string]
}

func (f *facts) ClusterPrefix() netip.Prefix { return f.cluster }
func (f *facts) OwnPrefix() netip.Prefix     { return f.own }

func (f *facts) RuntimeReady(ctx context.Context) (string, error) { return f.version(ctx) }

// Probe returns the machine's inventory.
func (f *facts) Probe(context.Context) (loops.MachineFacts, error) {
	m := loops.MachineFacts{
		CPU: f.cfg.CPU, Memory: f.cfg.Memory, OS: osName(), Architecture: runtime.GOARCH,
		Version: f.cfg.Version, Level: peer.Level,
	}
	if a := f.address.Load(); a != nil {
		m.Address = a.String()
	}
	if f.lan != nil {
		var err error
		if m.LAN, err = f.lan(); err != nil {
			return m, err
		}
		f.lanKnown.Store(&m.LAN)
	}
	m.Delegated = f.delegated
	if l := f.listening.Load(); l != nil {
		m.Listening = *l
	}
	if m.CPU == 0 {
		m.CPU = int64(runtime.NumCPU()) * 1000
	}
	var err error
	if m.Memory == 0 {
		if m.Memory, err = totalMemory(); err != nil {
			return m, err
		}
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return m, fmt.Errorf("read the kernel's version: %w", err)
	}
	m.Kernel = unix.ByteSliceToString(u.Release[:])
	return m, nil
}

// totalMemory reads MemTotal, in bytes.
func totalMemory() (int64, error) {
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("read the machine's memory: %w", err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "MemTotal:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read MemTotal in /proc/meminfo: %w", err)
			}
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("read the machine's memory: /proc/meminfo has no MemTotal")
}

// osName is the system's name for people, as in os-release(5).
func osName() string {
	raw, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return runtime.GOOS
	}
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(value, `"`)
		}
	}
	return runtime.GOOS
}
