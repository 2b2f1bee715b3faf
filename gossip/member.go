package gossip

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"starling.dev/starling/crdt"
)

// Status is how a machine is seen from here. It is a local, fallible view: only a
// majority of the voters may conclude from silence that a machine is gone.
type Status int

// The statuses of a member.
const (
	// Alive: it answers, or has not yet failed to for long enough.
	Alive Status = iota + 1
	// Failed: it went silent without saying goodbye.
	Failed
	// Left: it said that it leaves the cluster.
	Left
)

// String names the status as people see it.
func (s Status) String() string {
	switch s {
	case Alive:
		return "alive"
	case Failed:
		return "failed"
	case Left:
		return "left"
	}
	return "unknown"
}

// Member is one machine as gossip knows it. A Member is a value; it never changes
// after it was handed out.
type Member struct {
	ID   crdt.MachineID
	Name string
	// Addr is where the machine's gossip port is reached now. It may change at any
	// time; the ID is the identity.
	Addr netip.AddrPort
	// StreamPort is the TCP port of its [Transport], on the same address.
	StreamPort uint16
	Level      uint32
	Version    string
	Status     Status
	// Since is when this status was first seen here.
	Since time.Time
}

// StreamAddr is where the machine's [Transport] is reached.
func (m Member) StreamAddr() netip.AddrPort {
	return netip.AddrPortFrom(m.Addr.Addr(), m.StreamPort)
}

// Known is one row of the peer table that a peer keeps on its disk, so that it finds
// the cluster again after a restart through any machine that it ever met.
type Known struct {
	ID         crdt.MachineID
	Name       string
	Addr       netip.AddrPort
	StreamPort uint16
}

// Self describes the machine that a [Membership] speaks for.
type Self struct {
	ID         crdt.MachineID // required
	Name       string         // required, at most 63 bytes
	StreamPort uint16         // required
	Level      uint32
	Version    string // at most 64 bytes
}

// The tags of a member. Together they must stay below memberlist's 512 bytes. The
// machine's ID is no tag: it is the member's name.
const (
	tagName    = "n"
	tagAddr    = "a"
	tagStreams = "s"
	tagLevel   = "l"
	tagVersion = "v"
)

const (
	maxNameBytes    = 63
	maxVersionBytes = 64
)

func (s Self) tags(addr netip.AddrPort) map[string]string {
	return map[string]string{
		tagName:    s.Name,
		tagAddr:    addr.String(),
		tagStreams: strconv.Itoa(int(s.StreamPort)),
		tagLevel:   strconv.FormatUint(uint64(s.Level), 10),
		tagVersion: s.Version,
	}
}

// parseMember reads a member from its gossip name and tags. Status and Since are the
// caller's.
func parseMember(nodeName string, tags map[string]string) (Member, error) {
	id, err := parseMachineID(nodeName)
	if err != nil {
		return Member{}, err
	}
	addr, err := netip.ParseAddrPort(tags[tagAddr])
	if err != nil {
		return Member{}, fmt.Errorf("read the address of %s: %w", id, err)
	}
	if addr.Addr().IsUnspecified() || addr.Port() == 0 {
		return Member{}, fmt.Errorf("read the address of %s: %s is no address to send to", id, addr)
	}
	streams, err := strconv.ParseUint(tags[tagStreams], 10, 16)
	if err != nil {
		return Member{}, fmt.Errorf("read the stream port of %s: %w", id, err)
	}
	level, err := strconv.ParseUint(tags[tagLevel], 10, 32)
	if err != nil {
		return Member{}, fmt.Errorf("read the level of %s: %w", id, err)
	}
	if len(tags[tagName]) > maxNameBytes || len(tags[tagVersion]) > maxVersionBytes {
		return Member{}, fmt.Errorf("read the tags of %s: name or version is too long", id)
	}
	return Member{
		ID: id, Name: tags[tagName], Addr: unmap(addr), StreamPort: uint16(streams),
		Level: uint32(level), Version: tags[tagVersion],
	}, nil
}

func parseMachineID(s string) (crdt.MachineID, error) {
	var id crdt.MachineID
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(id) || strings.ToLower(s) != s {
		return id, fmt.Errorf("read a machine ID: %q is not %d lower-case hex digits", s, 2*len(id))
	}
	return crdt.MachineID(b), nil
}

func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}
