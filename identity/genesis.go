package identity

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
)

// GenesisVersion is the version of the genesis format that this program writes.
const GenesisVersion = 1

// MaxRoots is how many root keys a cluster may have.
const MaxRoots = 2

const maxGenesis = 512

// ClusterID is the SHA-256 of the genesis record.
type ClusterID [32]byte

// String prints the first eight bytes in hex, enough to tell clusters apart by eye.
func (id ClusterID) String() string { return hex.EncodeToString(id[:8]) }

// Prefix is the part of the ID that a token carries.
func (id ClusterID) Prefix() [16]byte { return [16]byte(id[:16]) }

// Policy says which machines may manage the cluster: grant tokens, remove machines
// and write the voters. It is fixed at genesis.
type Policy uint8

// The policies.
const (
	// PolicyOpen: every admitted machine may. All machines are peers.
	PolicyOpen Policy = 1
	// PolicyDelegated: only the roots, and machines that a root delegated to.
	PolicyDelegated Policy = 2
)

// String returns the word used in specs and output.
func (p Policy) String() string {
	switch p {
	case PolicyOpen:
		return "open"
	case PolicyDelegated:
		return "delegated"
	}
	return fmt.Sprintf("policy %d", uint8(p))
}

// Genesis begins a cluster. Whoever holds a root key may do everything, and alone
// can undo what two machines did to each other.
type Genesis struct {
	Version uint8
	Nonce   [16]byte
	Roots   []ed25519.PublicKey // one or two, sorted
	Policy  Policy
	Name    string // the cluster's name, for people; a DNS label
	// Network is how pods get their addresses, the same on all machines. It is empty for
	// the default, and then not encoded.
	Network string
}

// Bytes is the canonical encoding.
func (g Genesis) Bytes() []byte {
	e := &encoder{}
	e.byte(g.Version)
	e.fixed(g.Nonce[:])
	e.uint(uint64(len(g.Roots)))
	for _, root := range g.Roots {
		e.fixed(root)
	}
	e.byte(byte(g.Policy))
	e.text(g.Name)
	if g.Network != "" {
		e.text(g.Network)
	}
	return e.buf
}

// ID is the hash of the record.
func (g Genesis) ID() ClusterID {
	return sha256.Sum256(append([]byte("starling genesis\x00"), g.Bytes()...))
}

// ParseGenesis reads a canonical genesis record.
func ParseGenesis(b []byte) (Genesis, error) {
	if len(b) > maxGenesis {
		return Genesis{}, fmt.Errorf("genesis record of %d bytes is over the limit of %d", len(b), maxGenesis)
	}
	d := &decoder{rest: b}
	g := Genesis{Version: d.byte()}
	if d.err == nil && g.Version != GenesisVersion {
		return Genesis{}, fmt.Errorf("genesis record has version %d, this program knows %d; upgrade it", g.Version, GenesisVersion)
	}
	d.fixed(g.Nonce[:])
	for range d.count(MaxRoots) {
		root := make([]byte, ed25519.PublicKeySize)
		d.fixed(root)
		g.Roots = append(g.Roots, root)
	}
	g.Policy = Policy(d.byte())
	g.Name = d.text(maxName)
	if d.err == nil && len(d.rest) > 0 {
		if g.Network = d.text(maxName); d.err == nil && g.Network == "" {
			return Genesis{}, errors.New("decode genesis record: its network is empty and written down all the same")
		}
	}
	if err := d.end(); err != nil {
		return Genesis{}, fmt.Errorf("decode genesis record: %w", err)
	}
	return g, g.validate()
}

func (g Genesis) validate() error {
	if n := len(g.Roots); n < 1 || n > MaxRoots {
		return fmt.Errorf("genesis record has %d root keys; it needs one or two", n)
	}
	for _, root := range g.Roots {
		if len(root) != ed25519.PublicKeySize {
			return fmt.Errorf("genesis record has a root key of %d bytes; Ed25519 keys have %d", len(root), ed25519.PublicKeySize)
		}
	}
	if len(g.Roots) == 2 && bytes.Compare(g.Roots[0], g.Roots[1]) >= 0 {
		return fmt.Errorf("genesis record lists its root keys twice or out of order")
	}
	if g.Policy != PolicyOpen && g.Policy != PolicyDelegated {
		return fmt.Errorf("genesis record has an unknown policy %d", uint8(g.Policy))
	}
	if g.Network != "" {
		if err := CheckName(g.Network); err != nil {
			return fmt.Errorf("network of the cluster: %w", err)
		}
	}
	return CheckName(g.Name)
}

// isRoot reports whether the ID is one of the root keys'.
func (g Genesis) isRoot(id crdt.MachineID) bool {
	return slices.ContainsFunc(g.Roots, func(root ed25519.PublicKey) bool { return IDOf(root) == id })
}

// maxName is the length of a DNS label (RFC 1035, section 2.3.4).
const maxName = 63

// CheckName says what is wrong with a machine's or cluster's name, which must be a
// DNS label: lower-case letters, digits and inner hyphens.
func CheckName(name string) error {
	bad := name == "" || len(name) > maxName || name[0] == '-' || name[len(name)-1] == '-'
	for i := 0; i < len(name) && !bad; i++ {
		c := name[i]
		bad = c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9')
	}
	if bad {
		return api.Errorf(api.Invalid, "%q is not a usable name; use 1 to %d of a-z, 0-9 and inner hyphens", name, maxName)
	}
	return nil
}
