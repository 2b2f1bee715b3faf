package identity

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"slices"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
)

// proofContext separates a token's signatures from all others.
const proofContext = "starling join proof\x00"

func proofContent(cluster ClusterID, pub ed25519.PublicKey, name string, binding [32]byte) []byte {
	e := &encoder{}
	e.fixed([]byte(proofContext))
	e.fixed(cluster[:])
	e.fixed(pub)
	e.text(name)
	e.fixed(binding[:])
	return e.buf
}

func verifyProof(cluster ClusterID, tokenKey ed25519.PublicKey, a Admit) bool {
	return ed25519.Verify(tokenKey, proofContent(cluster, a.PublicKey, a.Name, a.Binding), a.Proof)
}

// Newcomer is the joining side's state of one exchange.
type Newcomer struct {
	// Token, Key (the machine's) and Name are required.
	Token Token
	Key   ed25519.PrivateKey
	Name  string
	// Replace asks for the place of the dead machine of that name.
	Replace bool
}

// Request answers a Hello. It first checks that the server, whose key the connection
// proved, belongs to the token's cluster; only then is anything made of the token.
// Binding is the connection's, see [ChannelBinding].
func (n Newcomer) Request(hello Hello, server ed25519.PublicKey, binding [32]byte, now time.Time) (JoinRequest, error) {
	if err := CheckName(n.Name); err != nil {
		return JoinRequest{}, err
	}
	if err := hello.Verify(n.Token.Cluster, server); err != nil {
		return JoinRequest{}, err
	}
	tokenKey, pub := n.Token.Key(), publicOf(n.Key)
	return JoinRequest{
		PublicKey:       pub,
		Name:            n.Name,
		Replace:         n.Replace,
		TokenKey:        publicOf(tokenKey),
		Proof:           ed25519.Sign(tokenKey, proofContent(hello.Genesis.ID(), pub, n.Name, binding)),
		ClockUnixMillis: uint64(max(now.UnixMilli(), 0)),
	}, nil
}

// Open takes the reply in: the log that the new machine starts with, in which it is a
// member, or the server's refusal as the error.
func (n Newcomer) Open(hello Hello, reply JoinReply) (*Log, error) {
	if reply.Refusal != nil {
		return nil, reply.Refusal
	}
	l, err := OpenLog(hello.Genesis, reply.Records)
	if err != nil {
		return nil, fmt.Errorf("join: the server's answer is unusable: %w", err)
	}
	if _, ok := l.Snapshot().Admitted(publicOf(n.Key)); !ok {
		return nil, api.Errorf(api.Invalid, "join: the server answered with a log in which this machine is not a member; try another machine")
	}
	return l, nil
}

// Hello is what this machine, by its public key, shows to a newcomer.
func (l *Log) Hello(server ed25519.PublicKey) (Hello, error) {
	if _, ok := l.Snapshot().Admitted(server); !ok {
		return Hello{}, api.Errorf(api.Unauthorized, "this machine is not a member of the cluster, so it can't let others join")
	}
	return Hello{Genesis: l.genesis, Chain: l.Chain(IDOf(server))}, nil
}

// Chain lists the records that lead from a root to a machine: its admission and grant,
// those of the machines that stated them, and so on, causes first. It is much less
// than the log, and enough to know the cluster by.
func (l *Log) Chain(id crdt.MachineID) [][]byte {
	c := chainWalk{judge: l.Snapshot().judge, seen: map[int]bool{}}
	c.machine(id)
	return c.out
}

type chainWalk struct {
	judge *view
	seen  map[int]bool
	out   [][]byte
}

func (c *chainWalk) machine(id crdt.MachineID) {
	for _, d := range c.judge.counting(c.judge.delegations[id]) {
		c.record(d)
	}
	if admissions := c.judge.counting(c.judge.admits[id]); len(admissions) > 0 {
		c.record(admissions[0])
	}
}

// record lists a record after those that it rests on. Each of those is older, so the
// walk ends.
func (c *chainWalk) record(i int) {
	if c.seen[i] {
		return
	}
	c.seen[i] = true
	nd := c.judge.nodes[i]
	if !nd.root {
		c.machine(nd.issuer)
		if a, ok := admission(nd.rec.Body); ok {
			c.record(c.judge.index[a.Grant])
		}
	}
	c.out = append(c.out, nd.rec.raw)
}

// Verify checks that the chain leads from a root of the cluster with the given ID to
// the server's key. It says that the server was admitted, not that it still belongs:
// that takes the whole log. Nothing shown to a former member is of use to it.
func (h Hello) Verify(cluster [16]byte, server ed25519.PublicKey) error {
	id := h.Genesis.ID()
	if id.Prefix() != cluster {
		return api.Errorf(api.WrongCluster, "the machine that answered belongs to cluster %s (%s), the token to another (%x…); check the address and the token", h.Genesis.Name, id, cluster[:8])
	}
	v := chainCheck{
		genesis: h.Genesis, id: id,
		members: map[crdt.MachineID]bool{}, managers: map[crdt.MachineID]bool{}, grants: map[crdt.ID]Grant{},
	}
	for _, raw := range h.Chain {
		if err := v.record(raw); err != nil {
			return api.Errorf(api.WrongCluster, "the machine that answered can't prove that it belongs to cluster %s: %v", id, err)
		}
	}
	if !v.members[IDOf(server)] {
		return api.Errorf(api.WrongCluster, "the machine that answered can't prove that it belongs to cluster %s: its key was not admitted", id)
	}
	return nil
}

// chainCheck is what a chain has proved so far.
type chainCheck struct {
	genesis  Genesis
	id       ClusterID
	members  map[crdt.MachineID]bool
	managers map[crdt.MachineID]bool
	grants   map[crdt.ID]Grant
}

func (v *chainCheck) record(raw []byte) error {
	rec, err := ParseRecord(raw)
	if err != nil {
		return err
	}
	if err := rec.Verify(v.id); err != nil {
		return err
	}
	issuer := rec.IssuerID()
	root := v.genesis.isRoot(issuer)
	manager := root || v.members[issuer] && (v.genesis.Policy == PolicyOpen || v.managers[issuer])
	switch b := rec.Body.(type) {
	case Delegate:
		v.managers[b.Machine] = v.managers[b.Machine] || root
	case Grant:
		if manager {
			v.grants[rec.id] = b
		}
	default:
		a, ok := admission(rec.Body)
		if ok && (root || v.sponsored(issuer, a)) {
			v.members[IDOf(a.PublicKey)] = true
		}
	}
	return nil
}

func (v *chainCheck) sponsored(sponsor crdt.MachineID, a Admit) bool {
	g, ok := v.grants[a.Grant]
	return ok && v.members[sponsor] && g.Sponsor == sponsor && verifyProof(v.id, g.TokenKey, a)
}

// Welcome is the reply to a newcomer that was admitted. Peers are where members were
// last seen.
func (l *Log) Welcome(peers []Peer, gossipKey []byte) JoinReply {
	return JoinReply{
		Records:   l.Since(0),
		Peers:     slices.Clone(peers),
		GossipKey: bytes.Clone(gossipKey),
		Warning:   JoinWarning(l.Snapshot()),
	}
}

// JoinWarning says what a cluster of two machines can't do. It is empty for others.
func JoinWarning(s *Snapshot) string {
	if len(s.Members()) != 2 {
		return ""
	}
	return "This cluster has two machines. When one of them is silent, the other can't tell whether it is dead " +
		"or only cut off, so the pods of a silent machine are not replaced; all else works. " +
		"Add a third machine, and they will be. It may be a small one that runs no pods and only votes, a witness: " +
		"join it, then `peer machine drain NAME`."
}
