// Package linuxtest is a machine in a network namespace of its own, with pods that are
// connected as real ones are, for tests of what a machine does for its pods.
package linuxtest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"starling.dev/starling/loops"
	"starling.dev/starling/netstack"
	"starling.dev/starling/netstack/linux"
)

// Patience bounds every wait.
const Patience = 2 * time.Second

// World is a machine with pods.
type World struct {
	T       testing.TB
	Machine string       // path of its namespace
	Cluster netip.Prefix // the cluster's
	Own     netip.Prefix // the machine's
	Pods    []Pod

	dir     string
	network *linux.Network
}

// Pod is a pod of the machine.
type Pod struct {
	Name    string
	Space   string // path of its namespace
	Address netip.Addr
}

// Check ends the test on an error.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// New makes a machine with a number of pods. Everything is gone when the test is over.
func New(t testing.TB, pods int) *World {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	w := &World{T: t, dir: t.TempDir()}
	w.Machine = filepath.Join(w.dir, "machine")
	fd, _, err := linux.MakeNamespace(w.Machine)
	Check(t, err)
	unix.Close(fd)
	t.Cleanup(func() {
		entries, _ := filepath.Glob(filepath.Join(w.dir, "*"))
		for _, e := range entries {
			Check(t, linux.RemoveNamespace(e))
		}
	})
	id := sha256.Sum256([]byte(t.Name()))
	w.Cluster = netstack.ClusterPrefix(id[:])
	w.Own = netstack.MachinePrefix(w.Cluster, id[8:])
	w.network, err = linux.New(linux.Config{
		Cluster: w.Cluster, Own: w.Own, Scope: "m", Namespaces: w.dir, Machine: w.Machine, Log: slog.New(slog.DiscardHandler),
	})
	Check(t, err)
	t.Cleanup(func() { Check(t, w.network.Close()) })
	Check(t, w.network.Routes(t.Context(), loops.RoutePlan{Cluster: w.Cluster, Own: w.Own}))
	for i := range pods {
		w.addPod(i)
	}
	return w
}

func (w *World) addPod(i int) {
	address := netstack.RandomAddress(w.Own, func() uint64 { return uint64(i + 1) })
	name := fmt.Sprintf("pod%d", i)
	path, err := w.network.Attach(w.T.Context(), loops.PodNetwork{ID: name, Name: name, Address: address, IPv4: "none"})
	Check(w.T, err)
	w.Pods = append(w.Pods, Pod{name, path, address})
}

// Addresses are those of the pods.
func (w *World) Addresses() (list []netip.Addr) {
	for _, p := range w.Pods {
		list = append(list, p.Address)
	}
	return list
}

// In runs f on a thread in a namespace.
func (w *World) In(path string, f func() error) error {
	w.T.Helper()
	fd, err := linux.OpenNamespace(path)
	Check(w.T, err)
	defer unix.Close(fd)
	return linux.Within(fd, f)
}

// Serve answers each connection to a pod's port with the pod's name and the client's
// address.
func (w *World) Serve(i int, port uint16) {
	p := w.Pods[i]
	var l net.Listener
	Check(w.T, w.In(p.Space, func() (err error) {
		l, err = net.Listen("tcp6", fmt.Sprintf("[::]:%d", port))
		return err
	}))
	w.T.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(conn, "%s %s", p.Name, conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr())
			conn.Close()
		}
	}()
}

// ServeUDP answers each packet to a pod's port with the pod's name.
func (w *World) ServeUDP(i int, port uint16) {
	p := w.Pods[i]
	var c net.PacketConn
	Check(w.T, w.In(p.Space, func() (err error) {
		c, err = net.ListenPacket("udp6", fmt.Sprintf("[::]:%d", port))
		return err
	}))
	w.T.Cleanup(func() { c.Close() })
	go func() {
		buf := make([]byte, 64)
		for {
			_, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = c.WriteTo([]byte(p.Name), from)
		}
	}()
}

// Ask connects from a namespace and returns the name of who answered, and the client as
// it was seen.
func (w *World) Ask(path string, to netip.AddrPort) (name string, seen netip.Addr, err error) {
	var text []byte
	err = w.In(path, func() error {
		conn, err := net.DialTimeout("tcp", to.String(), Patience)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(Patience)); err != nil {
			return err
		}
		text, err = io.ReadAll(conn)
		return err
	})
	if err != nil {
		return "", netip.Addr{}, err
	}
	var from string
	if _, err := fmt.Sscan(string(text), &name, &from); err != nil {
		return "", netip.Addr{}, fmt.Errorf("answer %q: %w", text, err)
	}
	seen, err = netip.ParseAddr(from)
	return name, seen, err
}

// Dial opens a connection from a namespace.
func (w *World) Dial(path, network string, to netip.AddrPort) (conn net.Conn, err error) {
	err = w.In(path, func() error {
		conn, err = net.DialTimeout(network, to.String(), Patience)
		return err
	})
	return conn, err
}

// Say sends a packet and returns the answer.
func Say(conn net.Conn) (string, error) {
	buf := make([]byte, 64)
	if err := conn.SetDeadline(time.Now().Add(Patience)); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte("who?")); err != nil {
		return "", err
	}
	n, err := conn.Read(buf)
	return string(buf[:n]), err
}

// Sh runs a script in the machine's namespace.
func (w *World) Sh(script string) {
	w.T.Helper()
	Check(w.T, w.In(w.Machine, func() error {
		out, err := exec.Command("sh", "-ec", script).CombinedOutput()
		if err != nil {
			return errors.Join(err, errors.New(string(out)))
		}
		return nil
	}))
}

// Ruleset prints a table of the machine as nft(8) shows it; empty if it is not there.
func (w *World) Ruleset(table string) string {
	var out []byte
	Check(w.T, w.In(w.Machine, func() (err error) {
		out, err = exec.Command("sh", "-ec", "nft list tables ip6 | grep -q ' "+table+"$' || exit 0; nft -s list table ip6 "+table).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}))
	return string(out)
}
