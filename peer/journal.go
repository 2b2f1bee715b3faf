package peer

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
)

// Level is the level of changes that this program writes and folds.
const Level = 1

// AuthPrefix begins the keys of authorisation records.
const AuthPrefix = "auth/"

// Keys of the private key space.
const (
	keyActor = "actor" // the own actor of this life
	keyClock = "clock" // the last clock reading
)

// AuthKey is where the n-th record of the authorisation log stands in the private key
// space, counted from 0: records come after their parents.
func AuthKey(n int) string { return fmt.Sprintf("%s%08d", AuthPrefix, n) }

// journal is the log: own entries and others', folded into the state.
type journal struct {
	c     *Core
	log   *crdt.Log
	state *crdt.State
	clock crdt.Clock
	actor crdt.ActorID // own; zero until the first own entry of this life
	birth crdt.Birth
	// turn holds the own changes of this turn, not yet signed as a batch.
	turn   [][]byte
	before crdt.HighWater // own actor of the life before
	recent recent
	// machines holds whose the actors are, as far as somebody asked.
	machines map[crdt.ActorID]crdt.MachineID
	// ahead tells the machines whose clock runs too far ahead, and how far: what they
	// write is refused. It is this peer's view, and ends with the next entry in time.
	ahead   map[crdt.MachineID]time.Duration
	resumed bool // from a checkpoint
	// recall is the clock reading from which on results are among the recent, as a
	// checkpoint says.
	recall uint64
	// since counts the changes that were folded since the last checkpoint.
	since int
	// unreadable counts own changes that were not written, since others would not read them.
	unreadable int
	// unsaved is how many bytes of objects at rest the last checkpoint, which may have failed
	// or be under way, was to take out of memory.
	unsaved int
	// folded is how far each actor's log was judged: what came later waits for authorisation.
	folded crdt.Heads
	// loading collects the objects that were folded while the disk is read, and noted those
	// that came with a checkpoint; nil later.
	loading map[crdt.Ref]bool
	noted   []noted
}

func newJournal(c *Core) (*journal, error) {
	j := &journal{c: c, ahead: map[crdt.MachineID]time.Duration{}, machines: map[crdt.ActorID]crdt.MachineID{}}
	return j, j.clear()
}

// clear begins with an empty log and an empty state.
func (j *journal) clear() (err error) {
	if j.log, err = crdt.NewLog(crdt.LogConfig{HashAt: j.c.cfg.HashAt}); err != nil {
		return err
	}
	j.state, err = j.newState()
	j.loading, j.noted, j.recent, j.since, j.folded = map[crdt.Ref]bool{}, nil, recent{}, 0, crdt.Heads{}
	return err
}

// newState returns an empty state that folds by the rules of this cluster.
func (j *journal) newState() (*crdt.State, error) {
	owners := j.c.cfg.Ownership.orTables()
	return crdt.NewState(crdt.Config{
		Level: max(j.c.cfg.Level, Level), Owner: owners.Field, StepOwner: owners.Step, SpecOwner: owners.Spec, Parent: api.OwnerParent,
		Permits: j.c.trust.Permits, Open: j.c.cfg.warm(),
	})
}

// load folds what the disk holds. The engine looks at each object once, at the end, or
// believes what a checkpoint says of it.
func (j *journal) load(rec Recovery) (err error) {
	if b := rec.Local[keyClock]; len(b) == 8 {
		j.clock.Observe(getUint64(b))
	}
	if err := j.loadForks(rec.Local); err != nil {
		return err
	}
	if j.resumed, err = j.resume(rec); err != nil {
		return err
	}
	if !j.resumed {
		if err := errors.Join(j.clear(), j.loadForks(rec.Local)); err != nil {
			return err
		}
		j.c.replica.forget()
		j.before, err = rec.Batches(j.takeStored)
	}
	j.begin()
	return err
}

// begin has the engine know all objects.
func (j *journal) begin() {
	e, looked, list := j.c.engine, j.loading, j.noted
	j.loading, j.noted = nil, nil
	if len(e.objects) == 0 {
		e.objects = make(map[crdt.Ref]*tracked, len(list)+len(looked))
	}
	for i := range list {
		if n := &list[i]; !e.believable(n) {
			looked[n.ref] = true
		}
	}
	for _, ref := range sortRefs(looked) {
		e.changed(ref)
	}
	for i := range list {
		if n := &list[i]; !looked[n.ref] {
			e.believe(n)
		}
	}
}

// takeStored takes a batch that is on the disk.
func (j *journal) takeStored(b crdt.Batch) error {
	a, err := j.log.Accept(b)
	if err != nil {
		return fmt.Errorf("entry %d of actor %s: %w", b.First, b.Actor, err)
	}
	if len(a.Changes) == 0 {
		return nil
	}
	j.c.replica.moved(b.Actor)
	j.fold(b, readChanges(b)[a.From-b.First:][:len(a.Changes)])
	return nil
}

// fold applies accepted changes of a batch to the state.
func (j *journal) fold(b crdt.Batch, changes []decoded) {
	machine := j.writer(b)
	for i := range changes {
		ch := &changes[i]
		if ch.readable {
			j.clock.Observe(ch.HLC)
		}
		ch.At.Machine = machine
		switch {
		case j.c.Covers(b.Actor, ch.At.Seq):
			j.c.compaction.passed(b.Actor, ch.id)
		case ch.readable: // containment: what can't be read is stored and relayed, not folded
			j.apply(ch.Change, ch.id)
		}
	}
}

func (j *journal) apply(ch crdt.Change, id crdt.ID) {
	j.since++
	j.recent.note(j.c, ch)
	a := j.state.Apply(ch, id)
	if !a.Unjudged {
		j.folded[ch.At.Actor] = ch.At.Head
	}
	switch {
	case a.Released == 0 && a.Outcome != crdt.Took && a.Outcome != crdt.Declined:
	case j.loading != nil:
		j.loading[a.Object] = true
	default:
		j.c.engine.changed(a.Object)
	}
}

// maxAhead is how far an entry's clock may run before this machine's: beyond, the
// batch is refused at the door and comes again by anti-entropy.
const maxAhead = 5 * time.Minute

// accept takes a batch of another actor whose signature was checked. It reports
// whether it brought entries.
func (j *journal) accept(in *received) (crdt.Accepted, bool) {
	b := in.batch
	if !j.timely(in) {
		return crdt.Accepted{Head: j.log.Head(b.Actor)}, false
	}
	head := j.log.Head(b.Actor)
	a, err := j.log.Accept(b)
	switch {
	case err != nil:
		return a, false
	case a.Verdict == crdt.Equivocation:
		j.convict(b, a)
		return a, false
	case a.Verdict != crdt.New && a.Verdict != crdt.Overlap:
		return a, false
	}
	if a.Verdict == crdt.Overlap { // what is here stays as it is: others may have compacted more, or say so
		j.c.out.Commit.Batches = append(j.c.out.Commit.Batches, b.After(head))
	} else {
		j.c.out.Commit.Batches = append(j.c.out.Commit.Batches, b)
	}
	j.c.replica.moved(b.Actor)
	j.c.compaction.arrived(b.Actor, a.From, a.Head.Seq)
	j.fold(b, in.changes[a.From-b.First:][:len(a.Changes)])
	return a, true
}

// timely reports whether the batch can be judged now: no clock in it runs too far
// ahead, and what builds on changes that are not here has room to wait.
func (j *journal) timely(in *received) bool {
	for i := range in.changes {
		ch := &in.changes[i]
		if by := crdt.Ahead(ch.HLC, j.c.now.UnixMilli()); ch.readable && by > maxAhead {
			j.ahead[j.writer(in.batch)] = by
			return false
		}
	}
	if len(j.ahead) > 0 {
		delete(j.ahead, j.writer(in.batch))
	}
	if j.state.HasRoom(len(in.changes)) {
		return true
	}
	var changes []crdt.Change
	var ids []crdt.ID
	for i := range in.changes {
		if ch := &in.changes[i]; ch.readable {
			changes, ids = append(changes, ch.Change), append(ids, ch.id)
		}
	}
	return j.state.Admits(changes, ids)
}

// writer is the machine that a batch is of.
func (j *journal) writer(b crdt.Batch) crdt.MachineID {
	if b.Birth != nil {
		return crdt.MachineIDOf(b.Birth.PublicKey)
	}
	return j.machine(b.Actor)
}

// machine is whose life the actor is; zero if its log is not known.
func (j *journal) machine(actor crdt.ActorID) crdt.MachineID {
	m, known := j.machines[actor]
	if pub, ok := j.log.Key(actor); !known && ok {
		m = crdt.MachineIDOf(pub)
		j.machines[actor] = m
	}
	return m
}

// standing digests the records of authorisation that decide what the folded entries are
// worth. When it changes, the log has to be folded anew.
func (j *journal) standing() crdt.ID {
	h := sha256.New()
	for _, actor := range sortedActors(j.folded) {
		h.Write(actor[:])
		for _, id := range j.c.trust.now.Standing(crdt.Place{Machine: j.machine(actor), Actor: actor, Head: j.folded[actor]}) {
			h.Write(id[:])
		}
	}
	return crdt.ID(h.Sum(nil))
}

// write appends a change to the own log and folds it at once, so that the rest of the
// turn sees it. It returns the change's ID. The turn's batch is signed when it is sealed.
func (j *journal) write(ch crdt.Change) crdt.ID {
	j.born()
	ch.HLC = j.clock.Now(j.c.now.UnixMilli())
	ch.Nonce = j.c.rand()
	ch.Level = Level
	ch.Auth = j.c.trust.Seen(j.c.self.ID)
	ch.At = crdt.Place{Machine: j.c.self.ID, Actor: j.actor, Head: crdt.Head{Seq: j.ownSeq() + 1}}
	raw := ch.Encode()
	if _, err := crdt.DecodeChange(raw); err != nil {
		j.unreadable++ // who writes looks before; else the others would have another state from here on
		return crdt.ID{}
	}
	id := crdt.ChangeID(j.actor, raw)
	j.turn = append(j.turn, raw)
	j.apply(ch, id)
	return id
}

// born starts the own actor of this life: a started peer never goes on with an old
// one, since its disk may be an older copy of itself.
func (j *journal) born() {
	if !j.actor.IsZero() {
		return
	}
	j.birth = crdt.Birth{PublicKey: j.c.cfg.PublicKey, Nonce: j.c.rand(), Before: j.before.Actor, BeforeHead: j.before.Head}
	j.actor = j.birth.ActorID()
	j.c.put(keyActor, bytes.Clone(j.actor[:]))
}

// sealBytes is when a batch of own changes is large enough. The one that exceeds it goes
// with it, and the batch is still far below what others take.
const sealBytes = crdt.MaxBatch / 2

// seal makes the turn's own changes one batch, signed once, or a few if they are many.
func (j *journal) seal() {
	turn := j.turn
	j.turn = nil
	for len(turn) > 0 {
		n := 0
		for size := 0; n < len(turn) && size < sealBytes; n++ {
			size += len(turn[n])
		}
		j.sealBatch(turn[:n:n])
		turn = turn[n:]
	}
}

func (j *journal) sealBatch(changes [][]byte) {
	head := j.log.Head(j.actor)
	b := crdt.Batch{Actor: j.actor, First: head.Seq + 1, Prev: head.Hash, Changes: changes}
	if b.First == 1 {
		b.Birth = &j.birth
	}
	b = crdt.SignBatch(b, j.c.cfg.Sign)
	a, err := j.log.Accept(b)
	if err != nil {
		panic(fmt.Sprintf("own batch refused by the own log: %v", err))
	}
	j.folded[j.actor] = b.Head()
	j.c.replica.moved(j.actor)
	j.c.out.Commit.Batches = append(j.c.out.Commit.Batches, b)
	j.c.out.Commit.HighWater = crdt.HighWater{Actor: j.actor, Head: a.Head}
	j.c.put(keyClock, putUint64(j.clock.Last()))
	j.c.replica.push(b, a.Head)
	j.c.compaction.own.wrote(b)
}

// ownSeq is the sequence number that the next sealed batch will end with.
func (j *journal) ownSeq() uint64 { return j.log.Head(j.actor).Seq + uint64(len(j.turn)) }
