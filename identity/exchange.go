package identity

import (
	"crypto/ed25519"
	"errors"
	"fmt"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
)

// The join exchange, over a TLS 1.3 connection with [ALPNJoin] on which both sides
// showed their machine's key:
//
//	server -> newcomer  Hello        proves that the server belongs to the cluster
//	newcomer -> server  JoinRequest  shows that it holds the token, on this channel
//	server -> newcomer  JoinReply    welcomes, or refuses with a reason
//
// Each message is sent once, length first; how is the carrier's business.

// Limits of the messages, in bytes, and of what they list.
const (
	MaxHello       = 4 << 20
	MaxJoinRequest = 1 << 10
	MaxJoinReply   = 64 << 20
	maxChain       = 1 << 14
	maxRecords     = 1 << 20
	maxPeers       = 1 << 10
	maxGossipKey   = 32
)

// messageVersion is the first byte of each message.
const messageVersion = 1

// Hello is the server's proof: the genesis and the records that lead from a root to
// the server's key, as [Log.Chain] lists them.
type Hello struct {
	Genesis Genesis
	Chain   [][]byte
}

// Bytes is the message's encoding.
func (h Hello) Bytes() []byte {
	e := &encoder{}
	e.byte(messageVersion)
	e.bytes(h.Genesis.Bytes())
	e.list(h.Chain)
	return e.buf
}

// ParseHello reads a Hello. It proves nothing yet; see [Hello.Verify].
func ParseHello(b []byte) (Hello, error) {
	d, err := openMessage(b, MaxHello)
	if err != nil {
		return Hello{}, fmt.Errorf("decode hello: %w", err)
	}
	raw := d.bytes(maxGenesis)
	h := Hello{Chain: d.list(maxChain)}
	if err := d.end(); err != nil {
		return Hello{}, fmt.Errorf("decode hello: %w", err)
	}
	h.Genesis, err = ParseGenesis(raw)
	return h, err
}

// JoinRequest asks to be admitted.
type JoinRequest struct {
	PublicKey ed25519.PublicKey // the newcomer's machine key
	Name      string
	// Replace asks for the place of the dead machine that holds the name.
	Replace bool
	// TokenKey is the public half of the token's one-time key; the private half never
	// leaves the newcomer.
	TokenKey ed25519.PublicKey
	// Proof is the one-time key's signature over the cluster, the newcomer's key and
	// name, and the channel, so that it is of no use to anyone else.
	Proof []byte
	// ClockUnixMillis is the newcomer's time.
	ClockUnixMillis uint64
}

// Bytes is the message's encoding.
func (r JoinRequest) Bytes() []byte {
	e := &encoder{}
	e.byte(messageVersion)
	e.fixed(r.PublicKey)
	e.text(r.Name)
	e.flag(r.Replace)
	e.fixed(r.TokenKey)
	e.bytes(r.Proof)
	e.uint(r.ClockUnixMillis)
	return e.buf
}

// ParseJoinRequest reads a JoinRequest.
func ParseJoinRequest(b []byte) (JoinRequest, error) {
	d, err := openMessage(b, MaxJoinRequest)
	if err != nil {
		return JoinRequest{}, fmt.Errorf("decode join request: %w", err)
	}
	r := JoinRequest{
		PublicKey:       d.key(),
		Name:            d.text(maxName),
		Replace:         d.flag(),
		TokenKey:        d.key(),
		Proof:           d.bytes(ed25519.SignatureSize),
		ClockUnixMillis: d.uint(maxMillis),
	}
	if err := d.end(); err != nil {
		return JoinRequest{}, fmt.Errorf("decode join request: %w", err)
	}
	return r, nil
}

// JoinReply is either a refusal or a welcome.
type JoinReply struct {
	// Refusal is nil in a welcome, which has all the rest.
	Refusal *Refusal
	// Records is the whole authorisation log, parents before children.
	Records [][]byte
	Peers   []Peer
	// GossipKey is the key of the hint channel; it protects nothing but hints.
	GossipKey []byte
	// Warning is for the person who joins; empty if there is nothing to say.
	Warning string
}

// Peer is where a member was last seen.
type Peer struct {
	Machine crdt.MachineID
	Address string // "host:port"
}

// Refusal is the answer to a request that was not granted.
type Refusal struct {
	Code    string
	Message string
	// Sponsor and Addresses say where to go with api.NotSponsor.
	Sponsor   crdt.MachineID
	Addresses []string
}

// Error returns the sentence for the person who joins.
func (r *Refusal) Error() string { return r.Message }

// RefusalFor turns an error of [Log.Redeem] into an answer. Only errors meant for the
// newcomer are told to it.
func RefusalFor(err error) *Refusal {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r
	}
	if e, ok := errors.AsType[*api.Error](err); ok {
		return &Refusal{Code: e.Code, Message: e.Message}
	}
	return &Refusal{Code: api.Invalid, Message: "the sponsor could not admit the machine; its log says why"}
}

const (
	replyWelcome = 0
	replyRefusal = 1
)

// Bytes is the message's encoding.
func (r JoinReply) Bytes() []byte {
	e := &encoder{}
	e.byte(messageVersion)
	if r.Refusal != nil {
		e.byte(replyRefusal)
		e.refusal(*r.Refusal)
		return e.buf
	}
	e.byte(replyWelcome)
	e.list(r.Records)
	// A few peers are enough to begin with; gossip names the others.
	peers := r.Peers[:min(len(r.Peers), maxPeers)]
	e.uint(uint64(len(peers)))
	for _, p := range peers {
		e.fixed(p.Machine[:])
		e.text(p.Address)
	}
	e.bytes(r.GossipKey)
	e.text(r.Warning)
	return e.buf
}

func (e *encoder) refusal(r Refusal) {
	e.text(r.Code)
	e.text(r.Message)
	e.fixed(r.Sponsor[:])
	addresses := r.Addresses[:min(len(r.Addresses), maxTokenAddress)]
	e.uint(uint64(len(addresses)))
	for _, a := range addresses {
		e.text(a)
	}
}

// ParseJoinReply reads a JoinReply.
func ParseJoinReply(b []byte) (JoinReply, error) {
	d, err := openMessage(b, MaxJoinReply)
	if err != nil {
		return JoinReply{}, fmt.Errorf("decode join reply: %w", err)
	}
	var r JoinReply
	switch d.byte() {
	case replyRefusal:
		r.Refusal = d.refusal()
	case replyWelcome:
		r = d.welcome()
	default:
		d.fail("it neither welcomes nor refuses")
	}
	if err := d.end(); err != nil {
		return JoinReply{}, fmt.Errorf("decode join reply: %w", err)
	}
	return r, nil
}

func (d *decoder) welcome() JoinReply {
	r := JoinReply{Records: d.list(maxRecords)}
	for range d.count(maxPeers) {
		r.Peers = append(r.Peers, Peer{Machine: d.machine(), Address: d.text(maxHost + 8)})
	}
	r.GossipKey = d.bytes(maxGossipKey)
	r.Warning = d.text(maxText)
	return r
}

func (d *decoder) refusal() *Refusal {
	r := &Refusal{Code: d.text(maxName), Message: d.text(maxText), Sponsor: d.machine()}
	for range d.count(maxTokenAddress) {
		r.Addresses = append(r.Addresses, d.text(maxHost+8))
	}
	return r
}

// maxText bounds a message for people, in bytes.
const maxText = 4096

func openMessage(b []byte, limit int) (*decoder, error) {
	if len(b) > limit {
		return nil, fmt.Errorf("%d bytes are over the limit of %d", len(b), limit)
	}
	d := &decoder{rest: b}
	if v := d.byte(); d.err == nil && v != messageVersion {
		return nil, fmt.Errorf("it has version %d, this program knows %d; upgrade the older of the two machines", v, messageVersion)
	}
	return d, nil
}

// list writes byte strings, such as records, one after the other.
func (e *encoder) list(items [][]byte) {
	e.uint(uint64(len(items)))
	for _, item := range items {
		e.bytes(item)
	}
}

func (d *decoder) list(limit int) [][]byte {
	var out [][]byte
	for range d.count(limit) {
		out = append(out, d.bytes(MaxRecord))
		if d.err != nil {
			return nil
		}
	}
	return out
}
