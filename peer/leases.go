package peer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/loops"
	"starling.dev/starling/quorum"
)

// LeaseLength is how long a lease is good for. It is renewed at a third of that.
const LeaseLength = 15 * time.Second

// leases keeps, for each leased pod whose containers this machine has or is about to
// start, a lease from the voters. All its times are of the boot-time clock, which counts
// while the machine sleeps and never jumps.
//
// Why two machines never hold one lease at once: the holder counts from before it asked,
// and stops after nine tenths of the length. Another machine takes the lease only if the
// register still holds exactly what it held eleven tenths of the length before, counted
// from after that was read. Clocks need not agree; they must run alike within a tenth.
type leases struct {
	c    *Core
	boot time.Duration
	all  map[string]*lease
}

// lease is one pod's.
type lease struct {
	ref crdt.Ref
	id  string
	// until is when the containers must be gone; fence is that of the lease.
	until time.Duration
	fence uint64
	held  bool
	// other is what the register held when another machine had the lease, and read when
	// that was first seen.
	other []byte
	read  time.Duration
	why   string
	next  time.Time
	busy  bool
}

// grant is the value of a lease's register.
type grant struct {
	Holder  crdt.MachineID // zero: nobody
	Fence   uint64         // grows with each holder
	Renewal uint64         // grows with each renewal
	Length  time.Duration
}

func (g grant) encode() []byte {
	b := binary.AppendUvarint(bytes.Clone(g.Holder[:]), g.Fence)
	return binary.AppendUvarint(binary.AppendUvarint(b, g.Renewal), uint64(g.Length))
}

func decodeGrant(raw []byte) (grant, error) {
	if raw == nil {
		return grant{}, nil
	}
	r := &reader{b: raw}
	g := grant{Holder: r.machine(), Fence: r.uvarint(), Renewal: r.uvarint(), Length: time.Duration(r.uvarint())}
	return g, r.err
}

func newLeases(c *Core) *leases { return &leases{c: c, all: map[string]*lease{}} }

// Boot tells the core the boot-time clock, before each Step. Without it no lease is taken.
func (c *Core) Boot(since time.Duration) { c.leases.boot = max(c.leases.boot, since) }

func leaseKey(id string) string { return "lease/" + id }

// leased reports whether an effect is of containers that may run under a lease only.
func leased(step string, ef effect) bool {
	return step == "container" && ef.Inputs.Fields.String("spec.partition") == api.PartitionLeased
}

// want notes what this machine is about to start, or has.
func (l *leases) want(id, step string, ef effect) {
	if step != "container" {
		return
	}
	if !leased(step, ef) {
		delete(l.all, id)
	} else if l.all[id] == nil {
		l.all[id] = &lease{ref: ef.Ref, id: id, next: l.c.now, why: "no voter was asked yet"}
	}
}

// drop gives the lease back: nothing of the pod is here any more.
func (l *leases) drop(id, step string) {
	if s := l.all[id]; step == "container" && s != nil {
		delete(l.all, id)
		l.release(id)
	}
}

func (l *leases) release(id string) {
	self := l.c.self.ID
	l.c.voting.change(leaseKey(id), func(present []byte) ([]byte, error) {
		g, err := decodeGrant(present)
		if err != nil || g.Holder != self {
			return present, err
		}
		g.Holder, g.Renewal = crdt.MachineID{}, g.Renewal+1
		return g.encode(), nil
	}, func(*quorum.Round) {}) // if it fails, the next holder waits for the end of the lease
}

// settle asks for what is due, and notes leases that have ended.
func (l *leases) settle() {
	for _, id := range sortedKeys(l.all) {
		s := l.all[id]
		if s.held && l.boot >= s.until {
			s.held, s.why = false, "it could not be renewed in time"
		}
		if !s.busy && !l.c.now.Before(s.next) && l.boot > 0 {
			l.ask(s)
		}
	}
}

// ask makes one attempt to take or renew a lease.
func (l *leases) ask(s *lease) {
	if len(l.c.voting.roll.Seats) == 0 {
		s.next = l.c.now.Add(time.Second)
		return
	}
	s.busy = true
	began := l.boot
	l.c.voting.change(leaseKey(s.id), func(present []byte) ([]byte, error) { return l.next(s, present) },
		func(r *quorum.Round) { l.answered(s, r, began) })
}

// next is the register's next value: this machine's lease, if it may have it.
func (l *leases) next(s *lease, present []byte) ([]byte, error) {
	g, err := decodeGrant(present)
	if err != nil {
		return nil, fmt.Errorf("read the lease of %s: %w", s.ref, err)
	}
	if !g.Holder.IsZero() && g.Holder != l.c.self.ID && !l.over(s, present, g) {
		return present, nil
	}
	if g.Holder != l.c.self.ID {
		g.Fence++
	}
	return grant{Holder: l.c.self.ID, Fence: g.Fence, Renewal: g.Renewal + 1, Length: LeaseLength}.encode(), nil
}

// over reports whether another's lease has ended for certain.
func (l *leases) over(s *lease, present []byte, g grant) bool {
	return bytes.Equal(present, s.other) && l.boot-s.read >= g.Length+g.Length/10
}

func (l *leases) answered(s *lease, r *quorum.Round, began time.Duration) {
	s.busy = false
	if l.all[s.id] != s {
		return
	}
	if r.State() != quorum.Chosen {
		s.why = fmt.Sprintf("%d of %d voters answer", r.Answers(), len(l.c.voting.roll.Seats))
		s.next = l.c.now.Add(LeaseLength/30 + time.Duration(l.c.rand()%uint64(LeaseLength/30)))
		l.tell(s)
		return
	}
	g, err := decodeGrant(r.Value())
	switch {
	case err != nil:
		s.why, s.next = err.Error(), l.c.now.Add(LeaseLength)
	case g.Holder == l.c.self.ID:
		s.held, s.fence, s.until, s.other = true, g.Fence, began+g.Length-g.Length/10, nil
		s.next = l.c.now.Add(LeaseLength / 3)
		l.c.engine.woken(s.ref)
	default:
		l.wait(s, r.Value(), g)
	}
	l.tell(s)
}

// wait has another machine's lease end first.
func (l *leases) wait(s *lease, value []byte, g grant) {
	s.held = false
	if !bytes.Equal(value, s.other) {
		s.other, s.read = bytes.Clone(value), l.boot
	}
	s.why = fmt.Sprintf("%s holds it, and nobody may start the pod before that has ended", l.c.nameOf(g.Holder))
	left := s.read + g.Length + g.Length/10 - l.boot
	s.next = l.c.now.Add(min(max(left, LeaseLength/30), LeaseLength/3))
}

// tell has the driver pass on how the lease stands, to the guard and to the step.
func (l *leases) tell(s *lease) {
	g := loops.Lease{PodID: s.id, Held: s.held && l.boot < s.until, Fence: s.fence, Until: s.until, Why: s.why}
	l.c.out.Leases = append(l.c.out.Leases, g)
}

func (l *leases) nextWake() time.Time {
	var next time.Time
	for _, s := range l.all {
		if !s.busy {
			next = earliest(next, s.next)
		}
	}
	return next
}

// woken has blocked steps of an object tried again: what they wait for is there.
func (e *engine) woken(ref crdt.Ref) {
	t, ok := e.objects[ref]
	if !ok {
		return
	}
	for _, try := range t.tries {
		try.woken, try.next = true, e.c.now
	}
	e.mark(ref)
}
