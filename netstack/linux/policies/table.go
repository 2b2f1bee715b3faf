package policies

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack/linux"
	"starling.dev/starling/netstack/linux/nft"
	"starling.dev/starling/netstack/policy"
)

// TableName is the name of the table, of family ip6.
const TableName = "starling-policy"

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
	cfg    Config
	fd     int
	mirror *nft.Mirror
}

// New opens the table; it changes nothing. The caller calls Close at the end, which
// changes nothing either.
func New(cfg Config) (*Table, error) {
	if !cfg.Cluster.IsValid() || !cfg.Cluster.Addr().Is6() {
		return nil, errors.New("configure policies: the cluster's prefix is missing")
	}
	fd, err := linux.OpenNamespace(cfg.Machine)
	if err != nil {
		return nil, fmt.Errorf("open the machine's network: %w", err)
	}
	kernel := nft.Table{Namespace: fd, Family: unix.NFPROTO_IPV6, Name: TableName}
	return &Table{cfg: cfg, fd: fd, mirror: nft.NewMirror(kernel)}, nil
}

// Close gives back what New opened. The table stays.
func (t *Table) Close() error { return unix.Close(t.fd) }

// Writes counts the transactions made so far.
func (t *Table) Writes() int64 { return t.mirror.Writes() }

// Set enforces a plan. A plan that is in force costs nothing.
func (t *Table) Set(ctx context.Context, p policy.Plan) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return t.mirror.Set(textOf(p), t.compile(p))
}

// Sync compares the plan with the kernel, and writes it if somebody changed that.
func (t *Table) Sync(ctx context.Context, p policy.Plan) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return t.mirror.Sync(textOf(p), t.compile(p))
}

// textOf is empty for a plan that needs no table.
func textOf(p policy.Plan) string {
	if p.Empty() {
		return ""
	}
	return p.String()
}

func (t *Table) compile(p policy.Plan) nft.Compile {
	return func(hash string) nft.Content { return compile(t.cfg, p, hash).Content }
}

// Purge removes the table.
func (t *Table) Purge() error { return t.mirror.Purge() }
