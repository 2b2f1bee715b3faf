package hostports

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"sync"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack"
	"starling.dev/starling/netstack/linux"
	"starling.dev/starling/netstack/linux/nft"
)

// TableName is the name of the table, of family inet.
const TableName = "starling-ports"

// Config says which machine the table is for.
type Config struct {
	// Machine is the path of the network namespace to work in; the process's own if
	// empty.
	Machine string
	// Cluster is the cluster's prefix, whose addresses have no host ports. Required.
	Cluster netip.Prefix
	// Source is the machine's address in the cluster: a pod that reaches itself is
	// answered from there. Required.
	Source netip.Addr
}

// Table is the machine's table of host ports. Its methods may be called concurrently.
type Table struct {
	cfg Config
	fd  int

	mu     sync.Mutex // guards what follows; held while the kernel is changed
	last   string     // what the kernel was last made or seen to hold
	known  bool       // last is known
	writes int64
}

// New opens the table; it changes nothing. The caller calls Close at the end, which
// changes nothing either.
func New(cfg Config) (*Table, error) {
	if !cfg.Cluster.IsValid() || !cfg.Cluster.Addr().Is6() || !cfg.Source.Is6() {
		return nil, errors.New("configure host ports: the cluster's prefix or the machine's address is missing")
	}
	path := cfg.Machine
	if path == "" {
		path = "/proc/thread-self/ns/net" // of a thread that is not in another one just now
	}
	fd, err := linux.OpenNamespace(path)
	if err != nil {
		return nil, fmt.Errorf("open the machine's network: %w", err)
	}
	return &Table{cfg: cfg, fd: fd}, nil
}

// Close gives back what New opened. The table stays.
func (t *Table) Close() error { return unix.Close(t.fd) }

// Writes counts the transactions made so far.
func (t *Table) Writes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.writes
}

// Set makes these ports, and no others, lead to pods. What is in place costs nothing.
func (t *Table) Set(list []netstack.HostPort) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known && t.last == netstack.HostPortLines(list) {
		return nil
	}
	return t.bring(list)
}

// Sync compares with the kernel, and writes if somebody changed that.
func (t *Table) Sync(list []netstack.HostPort) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bring(list)
}

func (t *Table) bring(list []netstack.HostPort) error {
	t.known = false
	text := netstack.HostPortLines(list)
	whole, err := t.holds(list, text)
	if err != nil {
		return err
	}
	if !whole {
		if err := t.write(list, text); err != nil {
			return err
		}
	}
	t.last, t.known = text, true
	return nil
}

// holds reports whether the kernel has the ports: the rules, recognised by their
// comments, which hold a hash of the whole, and as many elements as there should be.
func (t *Table) holds(list []netstack.HostPort, text string) (bool, error) {
	there, err := t.exists()
	if err != nil || !there || len(list) == 0 {
		return !there && len(list) == 0, err
	}
	kernel := nft.Table{Namespace: t.fd, Family: unix.NFPROTO_INET, Name: TableName}
	comments, err := kernel.Comments()
	if err != nil {
		return false, err
	}
	want := compile(t.cfg, list, hash(text))
	for _, c := range want.chains {
		if !slices.Equal(comments[c.chain.Name], c.comments()) {
			return false, nil
		}
	}
	for _, s := range want.sets {
		n := 0
		if err := kernel.Elements(s.set.Name, func(nft.Element) { n++ }); err != nil || n != len(s.elements) {
			return false, err
		}
	}
	return len(comments) == len(want.chains), nil
}

func (t *Table) exists() (bool, error) {
	conn, err := t.open()
	if err != nil {
		return false, err
	}
	tables, err := conn.ListTablesOfFamily(ourTable().Family)
	if err != nil {
		return false, fmt.Errorf("list nftables tables: %w", err)
	}
	return slices.ContainsFunc(tables, func(have *nftables.Table) bool { return have.Name == TableName }), nil
}

func (t *Table) open() (*nftables.Conn, error) {
	conn, err := nftables.New(nftables.WithNetNSFd(t.fd))
	if err != nil {
		return nil, fmt.Errorf("open an nftables socket: %w", err)
	}
	return conn, nil
}

func (t *Table) write(list []netstack.HostPort, text string) error {
	conn, err := t.open()
	if err != nil {
		return err
	}
	conn.AddTable(ourTable()) // what is not there can't be deleted
	conn.DelTable(ourTable())
	if len(list) > 0 {
		if err := compile(t.cfg, list, hash(text)).write(conn); err != nil {
			return err
		}
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("set table inet %s: %w", TableName, err)
	}
	t.writes++
	return nil
}

// Purge removes the table.
func (t *Table) Purge() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known = false
	return t.write(nil, "")
}

func hash(text string) string {
	h := fnv.New64a()
	h.Write([]byte(text))
	return fmt.Sprintf("%016x", h.Sum64())
}
