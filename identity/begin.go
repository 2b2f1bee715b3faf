package identity

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"slices"
	"starling.dev/starling/crdt"
)

// BeginConfig says how a cluster begins.
type BeginConfig struct {
	// Name is the cluster's, MachineName its first machine's. Required.
	Name, MachineName string
	// RootKey signs the first records, then belongs in a safe place. MachineKey is
	// the first machine's. Required.
	RootKey, MachineKey ed25519.PrivateKey
	// SecondRoot is another root's public key. Optional.
	SecondRoot ed25519.PublicKey
	// Network is how pods get their addresses; empty for the default.
	Network string
	// Policy is PolicyOpen if zero.
	Policy Policy
	// Clock is a hybrid logical clock's reading.
	Clock uint64
}

func (c BeginConfig) validate() error {
	if len(c.RootKey) != ed25519.PrivateKeySize || len(c.MachineKey) != ed25519.PrivateKeySize {
		return errors.New("a root key and a machine key are needed")
	}
	if bytes.Equal(c.RootKey, c.MachineKey) {
		return errors.New("the root key and the machine key must differ")
	}
	if err := CheckName(c.Name); err != nil {
		return fmt.Errorf("name of the cluster: %w", err)
	}
	if err := CheckName(c.MachineName); err != nil {
		return fmt.Errorf("name of the machine: %w", err)
	}
	return nil
}

// Begin makes a cluster of one machine: the genesis, the machine's admission by the
// root, its delegation where the policy asks for one, and the first voters. The log
// holds them all; persist its genesis and [Log.Since](0).
func Begin(c BeginConfig, rnd io.Reader) (*Log, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("begin a cluster: %w", err)
	}
	g := Genesis{Version: GenesisVersion, Policy: c.Policy, Name: c.Name, Network: c.Network}
	if g.Policy == 0 {
		g.Policy = PolicyOpen
	}
	if _, err := io.ReadFull(rnd, g.Nonce[:]); err != nil {
		return nil, fmt.Errorf("begin a cluster: read random bytes: %w", err)
	}
	g.Roots = []ed25519.PublicKey{publicOf(c.RootKey)}
	if c.SecondRoot != nil {
		g.Roots = append(g.Roots, c.SecondRoot)
		slices.SortFunc(g.Roots, func(a, b ed25519.PublicKey) int { return bytes.Compare(a, b) })
	}
	l, err := NewLog(g)
	if err != nil {
		return nil, fmt.Errorf("begin a cluster: %w", err)
	}
	return l, c.firstRecords(l)
}

func (c BeginConfig) firstRecords(l *Log) error {
	pub := publicOf(c.MachineKey)
	bodies := []Body{Admit{PublicKey: pub, Name: c.MachineName}}
	if l.genesis.Policy == PolicyDelegated {
		bodies = append(bodies, Delegate{Machine: IDOf(pub)})
	}
	for _, body := range bodies {
		if _, err := l.issue(c.RootKey, c.Clock, body); err != nil {
			return err
		}
	}
	_, err := l.PublishVoters(c.MachineKey, c.Clock, []crdt.MachineID{IDOf(pub)})
	return err
}
