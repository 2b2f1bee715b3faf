package hostports

import (
	"errors"
	"fmt"
	"net/netip"

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
	cfg    Config
	fd     int
	mirror *nft.Mirror
}

// New opens the table; it changes nothing. The caller calls Close at the end, which
// changes nothing either.
func New(cfg Config) (*Table, error) {
	if !cfg.Cluster.IsValid() || !cfg.Cluster.Addr().Is6() || !cfg.Source.Is6() {
		return nil, errors.New("configure host ports: the cluster's prefix or the machine's address is missing")
	}
	fd, err := linux.OpenNamespace(cfg.Machine)
	if err != nil {
		return nil, fmt.Errorf("open the machine's network: %w", err)
	}
	kernel := nft.Table{Namespace: fd, Family: unix.NFPROTO_INET, Name: TableName}
	return &Table{cfg: cfg, fd: fd, mirror: nft.NewMirror(kernel)}, nil
}

// Close gives back what New opened. The table stays.
func (t *Table) Close() error { return unix.Close(t.fd) }

// Writes counts the transactions made so far.
func (t *Table) Writes() int64 { return t.mirror.Writes() }

// Set makes these ports, and no others, lead elsewhere. What is in place costs nothing.
func (t *Table) Set(e netstack.Entrances) error {
	return t.mirror.Set(e.String(), t.compile(e))
}

// Sync compares with the kernel, and writes if somebody changed that.
func (t *Table) Sync(e netstack.Entrances) error {
	return t.mirror.Sync(e.String(), t.compile(e))
}

func (t *Table) compile(e netstack.Entrances) nft.Compile {
	return func(hash string) nft.Content { return compile(t.cfg, e, hash) }
}

// Purge removes the table.
func (t *Table) Purge() error { return t.mirror.Purge() }
