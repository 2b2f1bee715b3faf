package hostports

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"starling.dev/starling/netstack/linux"
)

// Listeners says which of the ports programs of the machine listen on, at an address that
// host ports are reached by, and which programs: "nginx (pid 812)".
func (t *Table) Listeners(ports []uint16) (map[uint16]string, error) {
	if len(ports) == 0 {
		return nil, nil
	}
	var sockets map[uint16]string // inodes by port
	err := linux.Within(t.fd, func() (err error) {
		sockets, err = t.listening(ports)
		return err
	})
	if err != nil || len(sockets) == 0 {
		return nil, err
	}
	by := map[uint16]string{}
	for port, inode := range sockets {
		by[port] = holder(inode)
	}
	return by, nil
}

// listening reads the kernel's lists of sockets; see proc_net(5) and Documentation/networking/proc_net_tcp.rst.
func (t *Table) listening(ports []uint16) (map[uint16]string, error) {
	// A TCP socket listens in state 10; a UDP socket that has no peer takes from all.
	const listen, unconnected = "0A", "07"
	found := map[uint16]string{}
	for file, state := range map[string]string{"tcp": listen, "tcp6": listen, "udp": unconnected, "udp6": unconnected} {
		raw, err := os.ReadFile("/proc/thread-self/net/" + file)
		if err != nil {
			return nil, fmt.Errorf("read which ports are in use: %w", err)
		}
		for line := range strings.Lines(string(raw)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != state {
				continue
			}
			at, err := parseSocket(f[1])
			if err == nil && slices.Contains(ports, at.Port()) && t.concerns(at.Addr()) {
				found[at.Port()] = f[9]
			}
		}
	}
	return found, nil
}

// concerns reports whether what listens at the address would be hidden by a host port.
func (t *Table) concerns(a netip.Addr) bool { return !a.IsLoopback() && !t.cfg.Cluster.Contains(a) }

// parseSocket reads "0100007F:0050": the address in words of the machine's byte order, which
// is little-endian wherever this program runs, and the port.
func parseSocket(s string) (netip.AddrPort, error) {
	address, port, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	for word := range slices.Chunk(b, 4) {
		slices.Reverse(word)
	}
	a, ok := netip.AddrFromSlice(b)
	n, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is no address of a socket", s)
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(n)), nil
}

// holder finds the program that has a socket open.
func holder(inode string) string {
	open, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range open {
		if to, err := os.Readlink(fd); err != nil || to != "socket:["+inode+"]" {
			continue
		}
		pid := strings.Split(fd, "/")[2]
		name, err := os.ReadFile("/proc/" + pid + "/comm")
		if err != nil {
			continue // it has just ended
		}
		return fmt.Sprintf("%s (pid %s)", strings.TrimSpace(string(name)), pid)
	}
	return "another program"
}
