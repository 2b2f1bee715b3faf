package peer

import (
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

// Config is what a core is made of. It is not changed.
type Config struct {
	// Self is this machine. Required.
	Self Machine
	// PublicKey and Sign are the machine's key. Required.
	PublicKey []byte
	Sign      crdt.Signer
	// Key signs what this machine states in the authorisation log: who the voters are.
	// Without it that is left to others.
	Key ed25519.PrivateKey
	// Trust is the authorisation log. Required.
	Trust *identity.Log
	// Kinds are the built-in kinds by name. Required.
	Kinds map[string]Kind
	// Ownership says who may write what. Optional: the tables of package api.
	Ownership Ownership
	// Seed feeds the only source of randomness. It must differ from start to start.
	Seed uint64
	// Warm is how many objects are kept at hand, decoded. Optional: 0 for what suits most.
	Warm int
	// Level is the highest level of changes that is folded. Optional: [Level]. What this
	// peer writes is of level [Level] in any case.
	Level uint32
	// HashAt reads the hash of a stored entry, when two logs disagree. Required.
	HashAt func(crdt.ActorID, uint64) (crdt.ID, bool)
	// Stored reads encoded batches of a range from its start, about so many bytes, as
	// [Disk] does: compaction looks at what it drops. Required.
	Stored func(r crdt.Range, maxBytes int) ([][]byte, error)
	// Retention says when this machine's own log is compacted. Optional.
	Retention Retention
}

// Ownership says by its functions which loop owns a field, a step, and the spec of an
// object that an author created; "" for people. All replicas must be given the same.
type Ownership struct {
	Field, Step, Spec func(kind, what string) string
}

func (o Ownership) orTables() Ownership {
	if o.Field == nil {
		o.Field = api.OwnerOf
	}
	if o.Step == nil {
		o.Step = api.StepOwner
	}
	if o.Spec == nil {
		o.Spec = api.SpecOwner
	}
	return o
}

// Kind is one kind of object as the core runs it.
type Kind struct {
	Graph *lifecycle.Graph
	// Compose builds the graph with further targets and the steps of foreign loops in it, or says what does
	// not fit. It may be nil: then nothing hooks into the kind.
	Compose func(targets []lifecycle.Target, foreign []lifecycle.Loop) (*lifecycle.Graph, error)
	// Effective fills in defaults.
	Effective func(api.Fields) api.Fields
	// Validate checks a merged spec, defaults filled in.
	Validate func(api.Fields) []api.Problem
	// Goal names the target that the object is to reach.
	Goal func(api.Fields) string
	// Derive adds fields that are computed from other objects on reading: what a
	// step reads of the rest of the cluster. It may be nil.
	Derive func(*lifecycle.Object, loops.Surroundings) api.Fields
	// Reservation is what an object reserves on its machine; nil for nothing.
	Reservation func(api.Fields) lifecycle.Reservation
}

func (c Config) validate() error {
	switch {
	case c.Self.ID.IsZero() || c.Self.Name == "":
		return errors.New("configure core: Self is required")
	case len(c.PublicKey) == 0 || c.Sign == nil:
		return errors.New("configure core: PublicKey and Sign are required")
	case c.Trust == nil || len(c.Kinds) == 0 || c.HashAt == nil || c.Stored == nil:
		return errors.New("configure core: Trust, Kinds, HashAt and Stored are required")
	}
	return nil
}

func (c Config) warm() int { return cmp.Or(c.Warm, defaultWarm) }

// Core is one peer's deterministic state machine. It is not safe for concurrent use:
// one goroutine drives it.
type Core struct {
	self    Machine
	cfg     Config
	now     time.Time
	random  *rand.Rand
	trust   *directory
	members *members
	journal *journal
	replica *replicator
	engine  *engine
	writes  *writes
	voting  *voting
	leases  *leases
	// compaction is what of the log counts for nothing, and goes.
	compaction *compaction
	// authSaved counts the records of the authorisation log that are on disk.
	authSaved int
	out       Ready
}

// Recovery is what a disk holds when a peer starts.
type Recovery struct {
	// Batches calls yield for every stored batch, those of one actor in order, and
	// returns the head that the own log had at the last commit. Required.
	Batches func(yield func(crdt.Batch) error) (crdt.HighWater, error)
	// Checkpoint opens what was last written of a [Core.Checkpoint], nil for none, and
	// Since calls yield for every stored batch that reaches beyond those heads; it fails if
	// the log holds others. Optional: without them, or in any doubt, Batches is read.
	Checkpoint func() (crdt.File, error)
	Since      func(heads crdt.Heads, yield func(crdt.Batch) error) (crdt.HighWater, error)
	// Local holds the private key space.
	Local map[string][]byte
	// Sound reports, once Batches returned, whether the disk passed its start check; nil
	// for yes. A disk that did not may have forgotten what this machine promised.
	Sound func() bool
	// Unswept: the machine may run what this disk does not know of, because the disk is an
	// older copy. Until [Swept] comes nothing new is promised or made for pods.
	Unswept bool
	// AuthRecords counts the records in Config.Trust that came from the disk.
	AuthRecords int
}

// New rebuilds a core from what the disk holds. It has no effect outside.
func New(cfg Config, rec Recovery, now time.Time) (*Core, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Core{
		self: cfg.Self, cfg: cfg, now: now,
		random:  rand.New(rand.NewPCG(cfg.Seed, 0x5741524c494e4753)),
		trust:   newDirectory(cfg.Trust),
		members: newMembers(cfg.Self.ID), authSaved: rec.AuthRecords,
	}
	c.engine = newEngine(c)
	c.engine.unswept = rec.Unswept
	c.replica = newReplicator(c)
	c.writes = newWrites(c)
	c.voting = newVoting(c)
	c.leases = newLeases(c)
	c.compaction = newCompaction(c)
	var err error
	if c.journal, err = newJournal(c); err != nil {
		return nil, err
	}
	if err := c.compaction.load(rec.Local); err != nil {
		return nil, fmt.Errorf("rebuild from disk: %w", err)
	}
	err = readable(func() error { return errors.Join(c.journal.load(rec), c.engine.recover(rec.Local)) })
	if errors.As(err, new(*crdt.Unreadable)) {
		_ = c.Close() // of what was only read
		rec.Checkpoint = nil
		return New(cfg, rec, now)
	}
	if err != nil {
		return nil, fmt.Errorf("rebuild from disk: %w", err)
	}
	if err := c.voting.load(rec.Local, rec.Sound == nil || rec.Sound()); err != nil {
		return nil, fmt.Errorf("rebuild from disk: %w", err)
	}
	return c, nil
}

// Step lets one event happen at the given time. Time never runs backwards: an
// earlier time counts as the last one.
func (c *Core) Step(now time.Time, e Event) {
	if now.After(c.now) {
		c.now = now
	}
	switch e := e.(type) {
	case Tick:
	case Received:
		c.receive(e.From, e.Message)
	case Membership:
		c.receiveMembership(e)
	case Connection:
		c.receiveConnection(e)
	case ActionDone:
		c.engine.actionDone(e)
	case Lost:
		c.engine.lost(e)
	case Attached:
		c.engine.attached(e)
	case Probed:
		c.engine.probed(e)
	case Again:
		c.engine.again(e)
	case Write:
		c.writes.begin(e)
	case Manage:
		c.manage(e)
	case Swept:
		c.engine.swept(e)
	}
}

func (c *Core) receive(from crdt.MachineID, m Message) {
	c.members.get(from, c.now).heard = c.now
	switch m := m.(type) {
	case Push:
		c.replica.receivePush(from, m)
	case Digest:
		c.replica.receiveDigest(from, m)
	case Vector:
		c.replica.receiveVector(from, m)
	case Ack:
		c.replica.receiveAck(from, m)
	case Have:
		c.replica.receiveHave(from, m)
	case Graft:
		c.replica.receiveGraft(from, m)
	case Prune:
		c.replica.setLazy(m.Actor, from)
	case Pull:
		c.replica.receivePull(from, m)
	case AuthOffer:
		c.receiveAuthOffer(from, m)
	case AuthRecords:
		c.addRecords(m.Records)
	case CompactedOffer:
		c.compaction.receiveOffer(from, m)
	case CompactedLogs:
		c.compaction.receiveLogs(from, m)
	case Ask:
		c.receiveAsk(from, m)
	case Vote:
		c.receiveVote(from, m)
	case RollCall:
		c.voting.receiveRollCall(from, m)
	case Propose:
		c.voting.receivePropose(from, m)
	case Answered:
		c.voting.receiveAnswered(from, m)
	case Candidate:
		c.voting.receiveCandidate(from, m)
	case CopyAsk:
		c.voting.receiveCopyAsk(from, m)
	case Copy:
		c.voting.receiveCopy(from, m)
	}
}

// Ready ends the turn: what is due is evaluated, own changes become one signed
// batch, and everything that the turn leads to is returned. The driver carries it
// out in the order of Ready's fields, then calls Advance.
func (c *Core) Ready() Ready {
	c.voting.settle()
	c.flushAuth()
	c.leases.settle()
	c.engine.settle()
	c.leases.settle() // of what has just been started
	c.engine.settle()
	c.replica.periodic()
	c.compaction.periodic()
	c.journal.seal()
	c.writes.settle()
	c.signAnswers()
	c.out.Wake = earliest(c.engine.nextWake(), c.replica.nextWake(), c.writes.nextWake(), c.voting.nextWake(), c.leases.nextWake(), c.compaction.nextWake())
	return c.out
}

// signAnswers says whose the answers are.
func (c *Core) signAnswers() {
	if len(c.out.Answers) == 0 {
		return
	}
	v := c.View()
	for i := range c.out.Answers {
		c.out.Answers[i].View = v
	}
}

// Advance says that the last Ready was carried out.
func (c *Core) Advance() { c.out = Ready{} }

func earliest(times ...time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

func (c *Core) send(to crdt.MachineID, m Message) {
	if to != c.self.ID {
		c.out.Send = append(c.out.Send, Envelope{to, m})
	}
}

func (c *Core) put(key string, value []byte) {
	c.out.Commit.Local = append(c.out.Commit.Local, crdt.LocalWrite{Key: key, Value: value})
}

func (c *Core) rand() uint64 { return c.random.Uint64() }

// receiveAuthOffer compares authorisation logs by their heads.
func (c *Core) receiveAuthOffer(from crdt.MachineID, m AuthOffer) {
	if missing := c.trust.Missing(m.Heads, maxRecords); len(missing) > 0 {
		c.send(from, AuthRecords{Records: missing})
	}
	if m.Reply {
		c.send(from, AuthOffer{Heads: c.trust.Heads()})
	}
}

// addRecords takes authorisation records of another member.
func (c *Core) addRecords(records [][]byte) {
	for _, r := range records {
		// A bad record has no effect; its sender's own log refuses it as well.
		_, _ = c.trust.Add(r)
	}
	c.relearn()
}

// relearn brings up to date what follows from the authorisation log, before anything else
// is judged by it. If what was folded already counts otherwise now, the core is built anew.
func (c *Core) relearn() {
	if c.trust.now == c.trust.Snapshot() {
		return
	}
	before := c.journal.standing()
	c.trust.refresh()
	if c.journal.standing() != before {
		c.out.Rebuild = true
	}
}

// manage lets the caller state something in the name of this machine. What it added
// to the log is made durable with the turn, before the answer leaves.
func (c *Core) manage(m Manage) {
	err := m.Do(c.trust.Log, c.now)
	c.relearn()
	c.out.Answers = append(c.out.Answers, Answer{Request: m.Request, Err: asError(err)})
}

// flushAuth makes new authorisation records durable, passes them on, and looks again
// at what waited for them.
func (c *Core) flushAuth() {
	fresh := c.trust.Since(c.authSaved)
	if len(fresh) == 0 {
		return
	}
	for i, r := range fresh {
		c.put(AuthKey(c.authSaved+i), r)
	}
	c.authSaved += len(fresh)
	c.relearn()
	for _, id := range c.members.connected() {
		c.send(id, AuthRecords{Records: fresh})
	}
	for _, ref := range c.journal.state.Retry() {
		c.engine.changed(ref)
	}
	c.journal.folded = c.journal.log.Heads()
	if c.trust.others {
		c.trust.others = false
		c.engine.clusterChanged()
	}
	c.voting.touch()
}
