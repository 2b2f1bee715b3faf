package policies

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"sync"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack/linux"
	"starling.dev/starling/netstack/linux/nft"
	"starling.dev/starling/netstack/policy"
)

// TableName is the name of the table, of family ip6.
const TableName = "starling-policy"

// socketBuffer is what the messages of a plan and their acknowledgements need.
const socketBuffer = 16 << 20

// Config says which machine the table is for.
type Config struct {
	// Machine is the path of the network namespace to work in; the process's own if
	// empty.
	Machine string
	// Cluster is the cluster's prefix: the world outside is not refused. Required.
	Cluster netip.Prefix
}

// Table is the machine's table of policies. Its methods may be called concurrently.
type Table struct {
	cfg Config
	fd  int

	mu     sync.Mutex // guards what follows; held while the kernel is changed
	last   string     // the plan that the kernel was last made or seen to hold
	known  bool       // last is known
	writes int64
}

// New opens the table; it changes nothing. The caller calls Close at the end, which
// changes nothing either.
func New(cfg Config) (*Table, error) {
	if !cfg.Cluster.IsValid() || !cfg.Cluster.Addr().Is6() {
		return nil, errors.New("configure policies: the cluster's prefix is missing")
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

// Set enforces a plan. A plan that is in force costs nothing.
func (t *Table) Set(ctx context.Context, p policy.Plan) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := p.String()
	if t.known && t.last == text {
		return nil
	}
	return t.bring(ctx, p, text)
}

// Sync compares the plan with the kernel, and writes it if somebody changed that.
func (t *Table) Sync(ctx context.Context, p policy.Plan) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bring(ctx, p, p.String())
}

func (t *Table) bring(ctx context.Context, p policy.Plan, text string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.known = false
	whole, err := t.holds(p, text)
	if err != nil {
		return err
	}
	if !whole {
		if err := t.write(p, text); err != nil {
			return err
		}
	}
	t.last, t.known = text, true
	return nil
}

// holds reports whether the kernel has the plan: the rules, recognised by their comments,
// and the sets, by their sizes. The comments hold a hash of the whole plan.
func (t *Table) holds(p policy.Plan, text string) (bool, error) {
	there, err := t.exists()
	if err != nil || !there || p.Empty() {
		return !there && p.Empty(), err
	}
	kernel := nft.Table{Namespace: t.fd, Family: unix.NFPROTO_IPV6, Name: TableName}
	comments, err := kernel.Comments()
	if err != nil {
		return false, err
	}
	want := compile(t.cfg, p, hash(text))
	if !want.hasRules(comments) {
		return false, nil
	}
	for _, s := range want.sets {
		n := 0
		if err := kernel.Elements(s.set.Name, func(nft.Element) { n++ }); err != nil || n != len(s.elements) {
			return false, err
		}
	}
	return true, nil
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
	for _, have := range tables {
		if have.Name == TableName {
			return true, nil
		}
	}
	return false, nil
}

func (t *Table) open() (*nftables.Conn, error) {
	conn, err := nftables.New(nftables.WithNetNSFd(t.fd), nftables.WithSockOptions(func(c *netlink.Conn) error {
		return errors.Join(c.SetReadBuffer(socketBuffer), c.SetWriteBuffer(socketBuffer))
	}))
	if err != nil {
		return nil, fmt.Errorf("open an nftables socket: %w", err)
	}
	return conn, nil
}

func (t *Table) write(p policy.Plan, text string) error {
	conn, err := t.open()
	if err != nil {
		return err
	}
	conn.AddTable(ourTable()) // what is not there can't be deleted
	conn.DelTable(ourTable())
	if !p.Empty() {
		if err := compile(t.cfg, p, hash(text)).write(conn); err != nil {
			return err
		}
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("set table ip6 %s: %w", TableName, err)
	}
	t.writes++
	return nil
}

// Purge removes the table.
func (t *Table) Purge() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known = false
	return t.write(policy.Plan{}, "")
}

func hash(text string) string {
	h := fnv.New64a()
	h.Write([]byte(text))
	return fmt.Sprintf("%016x", h.Sum64())
}
