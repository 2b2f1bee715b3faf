package identity

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"slices"

	"starling.dev/starling/crdt"
)

// Kind says what a record states.
type Kind uint8

// The kinds of level 1.
const (
	KindDelegate Kind = 1
	KindAdmit    Kind = 2
	KindGrant    Kind = 3
	KindVoters   Kind = 4
	KindRemove   Kind = 5
	KindReplace  Kind = 6
	KindRename   Kind = 7
)

// String returns the word used in output.
func (k Kind) String() string {
	names := [...]string{"", "delegate", "admit", "grant", "voters", "remove", "replace", "rename"}
	if k == 0 || int(k) >= len(names) {
		return fmt.Sprintf("kind-%d", uint8(k))
	}
	return names[k]
}

// Limits of bodies.
const (
	// MaxVoters is the size of the only quorum.
	MaxVoters = 7
	// MaxCut bounds the actors that a cut lists: one per life of a store that still
	// has entries.
	MaxCut  = 1024
	maxNote = 512
)

// Body is what a record states: one of the types below.
type Body interface {
	kind() Kind
	encode(*encoder)
}

// Delegate lets a machine manage the cluster under [PolicyDelegated]. Only a root
// delegates.
type Delegate struct{ Machine crdt.MachineID }

// Admit makes a key a machine of the cluster. A root admits whom it likes, and
// thereby lifts every removal of that key in the record's past; a machine admits by
// the token grant that names it as sponsor, with the newcomer's proof.
type Admit struct {
	PublicKey ed25519.PublicKey
	Name      string
	// Grant is the grant that was redeemed; zero when a root admits.
	Grant crdt.ID
	// Binding is the TLS channel that the proof was made for.
	Binding [32]byte
	// Proof is the signature by the token's one-time key, see [JoinRequest].
	Proof []byte
}

// Grant lets one newcomer join with the token whose one-time key this is.
type Grant struct {
	TokenKey ed25519.PublicKey
	// Sponsor is the one machine that may redeem it.
	Sponsor crdt.MachineID
	// ExpiresUnixMillis is judged by the sponsor's clock when it redeems, and never
	// by a reader of the log.
	ExpiresUnixMillis uint64
	Note              string
}

// Voters states who the voters are from an epoch on. The epoch is 1 + the greatest
// in the record's past, and is checked.
type Voters struct {
	Epoch    uint64
	Machines []crdt.MachineID // ascending, 1 to MaxVoters
}

// Remove takes a machine's authority away beyond the cut.
type Remove struct {
	Machine crdt.MachineID
	Reason  string
	// Distrust cuts off, besides the machine's own changes, what people said
	// through it: for a machine that was stolen or broken into.
	Distrust bool
	// Cut is the last entry of each of the machine's actors that still counts;
	// an actor that is not listed is cut at 0.
	Cut crdt.Heads
}

// Replace admits a machine in the place of a dead one, whose key it removes: one
// record, so that no replica sees the one without the other.
type Replace struct {
	Admit
	Remove
}

// Rename gives a machine another name; by itself, or by one that may manage.
type Rename struct {
	Machine crdt.MachineID
	Name    string
}

// Unknown is the body of a later program's kind: kept and relayed without effect.
type Unknown struct {
	Kind Kind
	Raw  []byte
}

func (Delegate) kind() Kind  { return KindDelegate }
func (Admit) kind() Kind     { return KindAdmit }
func (Grant) kind() Kind     { return KindGrant }
func (Voters) kind() Kind    { return KindVoters }
func (Remove) kind() Kind    { return KindRemove }
func (Replace) kind() Kind   { return KindReplace }
func (Rename) kind() Kind    { return KindRename }
func (u Unknown) kind() Kind { return u.Kind }

func decodeBody(kind Kind, raw []byte) (Body, error) {
	d := &decoder{rest: raw}
	var body Body
	switch kind {
	case KindDelegate:
		body = Delegate{Machine: d.machine()}
	case KindAdmit:
		body = d.admit()
	case KindGrant:
		body = d.grant()
	case KindVoters:
		body = d.voters()
	case KindRemove:
		body = d.remove()
	case KindReplace:
		body = Replace{Admit: d.admit(), Remove: d.remove()}
	case KindRename:
		body = Rename{Machine: d.machine(), Name: d.name()}
	case 0:
		return nil, errors.New("a record has no kind")
	default:
		return Unknown{Kind: kind, Raw: raw}, nil
	}
	if err := d.end(); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	return body, nil
}

func (u Unknown) encode(e *encoder)  { e.fixed(u.Raw) }
func (b Delegate) encode(e *encoder) { e.fixed(b.Machine[:]) }

func (b Rename) encode(e *encoder) {
	e.fixed(b.Machine[:])
	e.text(b.Name)
}

func (b Replace) encode(e *encoder) {
	b.Admit.encode(e)
	b.Remove.encode(e)
}

func (b Admit) encode(e *encoder) {
	e.fixed(b.PublicKey)
	e.text(b.Name)
	e.fixed(b.Grant[:])
	e.fixed(b.Binding[:])
	e.bytes(b.Proof)
}

func (d *decoder) admit() Admit {
	b := Admit{PublicKey: d.key(), Name: d.name()}
	d.fixed(b.Grant[:])
	d.fixed(b.Binding[:])
	b.Proof = d.bytes(ed25519.SignatureSize)
	return b
}

func (b Grant) encode(e *encoder) {
	e.fixed(b.TokenKey)
	e.fixed(b.Sponsor[:])
	e.uint(b.ExpiresUnixMillis)
	e.text(b.Note)
}

func (d *decoder) grant() Grant {
	return Grant{
		TokenKey:          d.key(),
		Sponsor:           d.machine(),
		ExpiresUnixMillis: d.uint(maxMillis),
		Note:              d.text(maxNote),
	}
}

func (b Voters) encode(e *encoder) {
	e.uint(b.Epoch)
	e.uint(uint64(len(b.Machines)))
	for _, m := range b.Machines {
		e.fixed(m[:])
	}
}

func (d *decoder) voters() Voters {
	b := Voters{Epoch: d.uint(maxStamp)}
	for range d.count(MaxVoters) {
		b.Machines = append(b.Machines, d.machine())
	}
	if len(b.Machines) == 0 || !ascending(b.Machines, compareMachines) {
		d.fail("the voters are missing, repeated or out of order")
	}
	return b
}

func (b Remove) encode(e *encoder) {
	e.fixed(b.Machine[:])
	e.text(b.Reason)
	e.flag(b.Distrust)
	e.uint(uint64(len(b.Cut)))
	for _, actor := range slices.SortedFunc(maps.Keys(b.Cut), crdt.ActorID.Compare) {
		head := b.Cut[actor]
		e.fixed(actor[:])
		e.uint(head.Seq)
		e.fixed(head.Hash[:])
	}
}

func (d *decoder) remove() Remove {
	b := Remove{Machine: d.machine(), Reason: d.text(maxNote), Distrust: d.flag(), Cut: crdt.Heads{}}
	var actors []crdt.ActorID
	for range d.count(MaxCut) {
		var actor crdt.ActorID
		var head crdt.Head
		d.fixed(actor[:])
		head.Seq = d.uint(maxStamp)
		d.fixed(head.Hash[:])
		actors = append(actors, actor)
		b.Cut[actor] = head
	}
	if !ascending(actors, crdt.ActorID.Compare) {
		d.fail("the actors of a cut are repeated or out of order")
	}
	return b
}

func (d *decoder) machine() crdt.MachineID {
	var id crdt.MachineID
	d.fixed(id[:])
	return id
}

func (d *decoder) key() ed25519.PublicKey {
	key := make(ed25519.PublicKey, ed25519.PublicKeySize)
	d.fixed(key)
	return key
}

func (d *decoder) name() string {
	name := d.text(maxName)
	if err := CheckName(name); err != nil && d.err == nil {
		d.fail("%w", err)
	}
	return name
}

func ascending[T any](list []T, compare func(a, b T) int) bool {
	for i := 1; i < len(list); i++ {
		if compare(list[i-1], list[i]) >= 0 {
			return false
		}
	}
	return true
}

// admission is the admitting part of a body, removal the removing part. A Replace
// has both, and each is judged by its own rule.
func admission(b Body) (Admit, bool) {
	switch b := b.(type) {
	case Admit:
		return b, true
	case Replace:
		return b.Admit, true
	}
	return Admit{}, false
}

func removal(b Body) (Remove, bool) {
	switch b := b.(type) {
	case Remove:
		return b, true
	case Replace:
		return b.Remove, true
	}
	return Remove{}, false
}
