package services

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack/linux"
	"starling.dev/starling/netstack/linux/nft"
	"starling.dev/starling/netstack/service"
)

// chunk is how many elements one transaction holds at most, and socketBuffer what its
// messages and their acknowledgements need.
const (
	chunk        = 2000
	socketBuffer = 8 << 20
)

// errUnread means that a change was asked for before the first Sync.
var errUnread = errors.New("the table of services was not read yet")

// Table is the machine's table of services. Its methods may be called concurrently.
type Table struct {
	cfg Config
	fd  int // the machine's network namespace

	mu sync.Mutex // guards what follows; held while the kernel is changed
	// have is what the kernel was last seen or made to hold; nil before the first Sync,
	// and after a change that failed.
	have *content
	// writes counts the transactions.
	writes int64
}

// New opens the table; it changes nothing. The caller calls Close at the end, which
// changes nothing either.
func New(cfg Config) (*Table, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("configure services: %w", err)
	}
	fd, err := linux.OpenNamespace(cfg.Machine)
	if err != nil {
		return nil, fmt.Errorf("open the machine's network: %w", err)
	}
	return &Table{cfg: cfg, fd: fd}, nil
}

// Close gives back what New opened. The table stays.
func (t *Table) Close() error { return unix.Close(t.fd) }

// Writes counts the transactions made so far. A Sync that finds everything in place
// makes none.
func (t *Table) Writes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.writes
}

func (t *Table) open() (*nftables.Conn, error) { return nft.Open(t.fd, socketBuffer) }

// Update sets some forwards and removes others. It relies on what the last Sync saw.
// After an error nothing is relied on any more, and the next change must be a Sync.
func (t *Table) Update(set []service.Forward, gone []service.Where) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.have == nil {
		return errUnread
	}
	return t.change(t.have.diff(set, gone))
}

// SetLocal says which pods are on this machine.
func (t *Table) SetLocal(pods []netip.Addr) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.have == nil {
		return errUnread
	}
	return t.change(t.have.diffLocal(pods))
}

// SetExternal says which addresses are those of load balancers: nothing but a service's
// ports answers there, and what leaves for a pod elsewhere has to come back by here.
func (t *Table) SetExternal(list []netip.Addr) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.have == nil {
		return errUnread
	}
	return t.change(t.have.diffExternal(list))
}

// Sync makes the kernel's table as wanted, whatever it is now.
func (t *Table) Sync(ctx context.Context, want []service.Forward, local []netip.Addr) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	have, whole, err := t.read()
	if err != nil {
		return err
	}
	if !whole {
		have = newContent()
		if err := t.transact(func(conn *nftables.Conn) error { return writeFixed(conn, t.cfg) }); err != nil {
			return err
		}
	}
	t.have = have
	if err := t.change(have.diff(want, have.strangers(want))); err != nil {
		return err
	}
	return t.change(have.diffLocal(local))
}

// change writes edits in their order, as many as fit into each transaction.
func (t *Table) change(edits []edit) error {
	for len(edits) > 0 {
		n := cut(edits)
		err := t.transact(func(conn *nftables.Conn) error {
			for _, e := range edits[:n] {
				if err := e.write(conn, t.have); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.have = nil
			return err
		}
		for _, e := range edits[:n] {
			e.note(t.have)
		}
		edits = edits[n:]
	}
	return nil
}

func (t *Table) transact(fill func(*nftables.Conn) error) error {
	conn, err := t.open()
	if err != nil {
		return err
	}
	if err := fill(conn); err != nil {
		return err
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("change table ip6 %s: %w", TableName, err)
	}
	t.writes++
	return nil
}

// Purge removes the table.
func (t *Table) Purge() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.have = nil
	return t.transact(func(conn *nftables.Conn) error {
		conn.AddTable(ourTable()) // what is not there can't be deleted
		conn.DelTable(ourTable())
		return nil
	})
}
