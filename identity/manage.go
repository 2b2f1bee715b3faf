package identity

import (
	"crypto/ed25519"
	"fmt"
	"io"
	"slices"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
)

// The methods in this file state something in the name of a key: they sign records,
// add them to the log and return them. The caller makes them durable before any leaves
// the machine. A statement that would not count is refused with api.Unauthorized
// and leaves the log as it was.

// MaxTokenLife bounds how long a token may be good for.
const MaxTokenLife = 30 * 24 * time.Hour

// ClockAt is the hybrid logical clock's form of a time: Unix milliseconds << 16.
func ClockAt(t time.Time) uint64 { return uint64(max(t.UnixMilli(), 0)) << 16 }

// issue signs and adds a record that counts here and now.
func (l *Log) issue(key ed25519.PrivateKey, clock uint64, body Body) (Record, error) {
	rec, err := l.Sign(key, clock, body)
	if err != nil {
		return Record{}, err
	}
	if why := l.Snapshot().judge.preview(l.place(rec)); why != "" {
		return Record{}, api.Errorf(api.Unauthorized, "this %s is not permitted: %s", rec.Kind, why)
	}
	if _, err := l.Add(rec.raw); err != nil {
		return Record{}, fmt.Errorf("add own %s record: %w", rec.Kind, err)
	}
	return rec, nil
}

// Invitation says what a token is to be good for.
type Invitation struct {
	// Sponsor is the member that will redeem the token. Required.
	Sponsor crdt.MachineID
	// Addresses are where the sponsor is reached, "host:port". Required.
	Addresses []string
	// Now is the inviting peer's time; Life how long the token is good for. Required.
	Now  time.Time
	Life time.Duration
	Note string
}

// Invite grants one admission and returns the token for it. Only the grant is in the
// log; the token exists nowhere but in the result.
func (l *Log) Invite(key ed25519.PrivateKey, in Invitation, rnd io.Reader) (Token, Record, error) {
	if m, ok := l.Snapshot().ByID(in.Sponsor); !ok || m.Removed {
		return Token{}, Record{}, api.Errorf(api.NotFound, "invite: the sponsor %s is not a member of this cluster", in.Sponsor)
	}
	if in.Life <= 0 || in.Life > MaxTokenLife {
		return Token{}, Record{}, api.Errorf(api.Invalid, "invite: a token lives up to %v, not %v", MaxTokenLife, in.Life)
	}
	token, err := NewToken(l.id, in.Addresses, rnd)
	if err != nil {
		return Token{}, Record{}, fmt.Errorf("invite: %w", err)
	}
	grant, err := l.issue(key, ClockAt(in.Now), Grant{
		TokenKey:          publicOf(token.Key()),
		Sponsor:           in.Sponsor,
		ExpiresUnixMillis: uint64(in.Now.Add(in.Life).UnixMilli()),
		Note:              in.Note,
	})
	if err != nil {
		return Token{}, Record{}, fmt.Errorf("invite: %w", err)
	}
	return token, grant, nil
}

// RemoveMachine takes a member's authority away; the voters take away its vote. A
// machine that leaves removes itself.
func (l *Log) RemoveMachine(key ed25519.PrivateKey, clock uint64, r Remove) ([]Record, error) {
	m, ok := l.Snapshot().ByID(r.Machine)
	if !ok {
		return nil, api.Errorf(api.NotFound, "remove machine %s: no such machine", r.Machine)
	}
	if m.Removed {
		return nil, api.Errorf(api.MachineRemoved, "remove machine %s: it is removed already", m.Name)
	}
	rec, err := l.issue(key, clock, r)
	if err != nil {
		return nil, fmt.Errorf("remove machine %s: %w", m.Name, err)
	}
	return []Record{rec}, nil
}

// RestoreMachine lifts every removal of a machine. It takes a root key.
func (l *Log) RestoreMachine(root ed25519.PrivateKey, clock uint64, id crdt.MachineID) (Record, error) {
	m, ok := l.Snapshot().ByID(id)
	if !ok {
		return Record{}, api.Errorf(api.NotFound, "restore machine %s: no such machine", id)
	}
	if !l.genesis.isRoot(IDOf(publicOf(root))) {
		return Record{}, api.Errorf(api.Unauthorized, "restore machine %s: only a root key restores", m.Name)
	}
	return l.issue(root, clock, Admit{PublicKey: m.PublicKey, Name: m.Claimed})
}

// RenameMachine gives a member a free name.
func (l *Log) RenameMachine(key ed25519.PrivateKey, clock uint64, id crdt.MachineID, name string) (Record, error) {
	if err := CheckName(name); err != nil {
		return Record{}, err
	}
	if holder, taken := l.Snapshot().ByName(name); taken && holder.ID != id {
		return Record{}, api.Errorf(api.NameTaken, "the name %q belongs to machine %s; choose another", name, holder.ID)
	}
	return l.issue(key, clock, Rename{Machine: id, Name: name})
}

// DelegateTo lets a machine manage the cluster. It takes a root key.
func (l *Log) DelegateTo(root ed25519.PrivateKey, clock uint64, id crdt.MachineID) (Record, error) {
	return l.issue(root, clock, Delegate{Machine: id})
}

// PublishVoters writes who the voters are from the next epoch on, so that everybody
// learns it. Who they are is decided by the voters themselves; this is the copy.
func (l *Log) PublishVoters(key ed25519.PrivateKey, clock uint64, machines []crdt.MachineID) (Record, error) {
	machines = slices.Clone(machines)
	slices.SortFunc(machines, compareMachines)
	rec, err := l.issue(key, clock, Voters{Epoch: l.Snapshot().NextEpoch(), Machines: machines})
	if err != nil {
		return Record{}, fmt.Errorf("write voters: %w", err)
	}
	return rec, nil
}

// NextEpoch is 1 + the greatest epoch that any record reached, counted or not.
func (s *Snapshot) NextEpoch() uint64 {
	var epoch uint64
	for _, nd := range s.judge.nodes {
		epoch = max(epoch, nd.epoch)
	}
	return epoch + 1
}
