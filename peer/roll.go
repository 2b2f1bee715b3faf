package peer

import (
	"encoding/binary"
	"errors"
	"slices"

	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
	"starling.dev/starling/quorum"
)

// Seat is a voter's place. The token is drawn by the voter and kept on its disk, beside
// what it promised: a voter whose disk was lost has another one, and no vote until its
// seat is given anew.
type Seat struct {
	Machine crdt.MachineID
	Token   uint64
}

// Roll lists the voters of an epoch. For each epoch there is one roll: it was chosen by
// the voters of the epoch before, whose first was the machine that began the cluster.
type Roll struct {
	Epoch uint64
	Seats []Seat // ascending by machine, at most identity.MaxVoters
	// Previous is the epoch before and Before its voters: a voter copies every register
	// from a majority of them before it votes.
	Previous uint64
	Before   []Seat
}

// seatOf finds a machine's seat.
func seatOf(seats []Seat, m crdt.MachineID) (Seat, bool) {
	i := slices.IndexFunc(seats, func(s Seat) bool { return s.Machine == m })
	if i < 0 {
		return Seat{}, false
	}
	return seats[i], true
}

// machines lists who sits on the seats.
func machinesOf(seats []Seat) []crdt.MachineID {
	var ids []crdt.MachineID
	for _, s := range seats {
		ids = append(ids, s.Machine)
	}
	return ids
}

// with is the next roll, with a seat given, or given anew.
func (r Roll) with(s Seat, epoch uint64) Roll {
	next := r.without(s.Machine, epoch)
	next.Seats = append(next.Seats, s)
	slices.SortFunc(next.Seats, func(a, b Seat) int { return compareMachines(a.Machine, b.Machine) })
	return next
}

// without is the next roll, with a seat taken away.
func (r Roll) without(m crdt.MachineID, epoch uint64) Roll {
	next := Roll{Epoch: epoch, Previous: r.Epoch, Before: r.Seats}
	for _, s := range r.Seats {
		if s.Machine != m {
			next.Seats = append(next.Seats, s)
		}
	}
	return next
}

// The encodings of rolls, ballots and registers: on the wire, on disk, and as the value
// of the register that holds the roll.

func appendRoll(b []byte, r Roll) []byte {
	b = appendSeats(binary.AppendUvarint(b, r.Epoch), r.Seats)
	return appendSeats(binary.AppendUvarint(b, r.Previous), r.Before)
}

func appendSeats(b []byte, seats []Seat) []byte {
	b = binary.AppendUvarint(b, uint64(len(seats)))
	for _, s := range seats {
		b = binary.AppendUvarint(append(b, s.Machine[:]...), s.Token)
	}
	return b
}

func (r *reader) roll() Roll {
	return Roll{Epoch: r.uvarint(), Seats: r.seats(), Previous: r.uvarint(), Before: r.seats()}
}

func (r *reader) seats() []Seat {
	n := r.count(identity.MaxVoters, 17)
	var seats []Seat
	for range n {
		seats = append(seats, Seat{Machine: r.machine(), Token: r.uvarint()})
	}
	return seats
}

// decodeRoll reads what appendRoll wrote.
func decodeRoll(raw []byte) (Roll, error) {
	r := &reader{b: raw}
	roll := r.roll()
	if r.err == nil && len(r.b) > 0 {
		r.err = errors.New("bytes behind the roll")
	}
	return roll, r.err
}

func appendBallot(b []byte, x quorum.Ballot) []byte {
	b = binary.AppendUvarint(binary.AppendUvarint(b, x.Epoch), x.Counter)
	return binary.AppendUvarint(append(b, x.Machine[:]...), x.Life)
}

func (r *reader) ballot() quorum.Ballot {
	return quorum.Ballot{Epoch: r.uvarint(), Counter: r.uvarint(), Machine: r.machine(), Life: r.uvarint()}
}

// maxRegister bounds a register's value, and its key.
const maxRegister = 4 << 10

func appendBytes(b, v []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

// bytes reads a value; one of length 0 is that of a register which was never written.
func (r *reader) bytes() []byte {
	n := r.count(maxRegister, 1)
	if n == 0 {
		return nil
	}
	return r.take(n)
}

func appendAcceptor(b []byte, a quorum.Acceptor) []byte {
	return appendBytes(appendBallot(appendBallot(b, a.Promised), a.Accepted), a.Value)
}

func (r *reader) acceptor() quorum.Acceptor {
	return quorum.Acceptor{Promised: r.ballot(), Accepted: r.ballot(), Value: r.bytes()}
}
