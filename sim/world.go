package sim

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"time"

	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
	"starling.dev/starling/peer"
)

// World is a cluster in virtual time. One goroutine uses it.
type World struct {
	cfg     Config
	weather weather
	// faulty says that faults happen: until the storm is over.
	faulty bool
	now    time.Duration
	queue  queue
	random streams

	root     ed25519.PrivateKey
	genesis  identity.Genesis
	kinds    map[string]peer.Kind
	machines []*machine
	byID     map[crdt.MachineID]*machine
	net      *network
	people   *people
	check    *checker
	trace    trace
	figures  Figures
	file     bytes.Buffer // memory for checkpoints while they are written
	// hooks are where tests plant bugs; all nil in an honest world.
	hooks hooks
	// future: a change of the next level was written. level is that of a newcomer's program.
	future bool
	level  uint32
	// chores counts what people still have to do after the storm.
	chores int
	// broken are the machines that stay broken, while the others have to come to rest.
	broken map[*machine]bool
	// outside is what the loops of people's own made out there, by the object's identity.
	outside map[string]bool
	// violation ends the run.
	violation *Violation
}

// streams are the random sources, one per concern.
type streams struct{ net, gossip, disk, host, people, chaos, check, boot, damage, rest, kinds, compact source }

// hooks let a test plant a bug between the core and the world around it, so that the
// production code holds no switch for any.
type hooks struct {
	// config alters what a core is started with.
	config func(*machine, *peer.Config, *peer.Recovery)
	// commit alters what reaches the disk.
	commit func(*machine, crdt.Commit) crdt.Commit
	// early takes from a Ready what then leaves before the sync.
	early func(*machine, *peer.Ready) peer.Ready
	// send alters a message on its way out.
	send func(from *machine, e peer.Envelope) []peer.Envelope
	// verify replaces the check of signatures.
	verify crdt.Verifier
	// unguarded says that a machine has no guards: what a lease was for goes on after it.
	unguarded bool
	// unswept says that a machine is not looked over when its peer starts.
	unswept bool
	// unsynced says that a sync was reported and not done.
	unsynced func(*machine) bool
	// acting is told how long each action will take.
	acting func(a peer.Action, took time.Duration)
	// weather makes it likely that the bug shows.
	weather func(*weather)
}

// newWorld founds a cluster; nothing runs yet.
func newWorld(cfg Config, h hooks) (*World, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	kinds, err := peer.Kinds()
	if err != nil {
		return nil, err
	}
	w := &World{cfg: cfg, kinds: kinds, hooks: h, byID: map[crdt.MachineID]*machine{}, figures: newFigures()}
	w.random = streams{
		net: newSource(cfg.Seed, "net"), gossip: newSource(cfg.Seed, "gossip"), disk: newSource(cfg.Seed, "disk"),
		host: newSource(cfg.Seed, "host"), people: newSource(cfg.Seed, "people"), chaos: newSource(cfg.Seed, "chaos"),
		check: newSource(cfg.Seed, "check"), boot: newSource(cfg.Seed, "boot"), rest: newSource(cfg.Seed, "rest"),
		damage: newSource(cfg.Seed, "damage"), kinds: newSource(cfg.Seed, "kinds"),
		compact: newSource(cfg.Seed, "compact"),
	}
	w.weather = drawWeather(newSource(cfg.Seed, "weather"), cfg.Calm)
	if !cfg.Calm {
		w.weather.drawDamage(w.random.damage)
		w.weather.drawCompaction(w.random.compact)
	}
	if h.weather != nil {
		h.weather(&w.weather)
	}
	w.trace = newTrace(cfg.Trace)
	w.net = newNetwork(w)
	w.people = newPeople(w)
	w.check = newChecker(w)
	if err := w.watchRolls(); err != nil {
		return nil, err
	}
	if err := w.found(cfg.Peers); err != nil {
		return nil, fmt.Errorf("found the simulated cluster: %w", err)
	}
	return w, nil
}

// epoch is when virtual time begins.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// clockAt is what a right clock shows at a point of virtual time.
func (w *World) clockAt(at time.Duration) time.Time { return epoch.Add(at) }

// after schedules something.
func (w *World) after(d time.Duration, do func()) { w.queue.add(event{at: w.now + d, do: do}) }

// runFor lets virtual time pass. It stops early at a violation.
func (w *World) runFor(d time.Duration) {
	end := w.now + d
	for w.violation == nil {
		e, ok := w.queue.next(end)
		if !ok {
			break
		}
		w.now = e.at
		w.figures.Events++
		if e.of == nil || e.of.life == e.life {
			e.do()
		}
	}
	if w.violation == nil {
		w.now = end
	}
}

// fail notes the first violation.
func (w *World) fail(invariant int, format string, args ...any) {
	if w.violation == nil {
		w.violation = &Violation{Invariant: invariant, At: w.now, Message: fmt.Sprintf(format, args...), Replay: w.cfg.Command(), Trace: w.trace.last()}
		w.say("violation of invariant %d: %s", invariant, w.violation.Message)
	}
}

// every repeats something at random intervals while the storm lasts.
func (w *World) every(mean time.Duration, s source, do func()) {
	if mean <= 0 {
		return
	}
	w.after(s.about(mean), func() {
		if w.faulty {
			do()
			w.every(mean, s, do)
		}
	})
}

func machineName(i int) string { return fmt.Sprintf("m%d", i+1) }

// running lists the machines whose peer runs.
func (w *World) running() []*machine {
	var up []*machine
	for _, m := range w.machines {
		if m.core != nil && !m.gone && !w.broken[m] {
			up = append(up, m)
		}
	}
	return up
}

// members lists the machines that were not removed, less those that stay broken.
func (w *World) members() []*machine {
	var in []*machine
	for _, m := range w.machines {
		if !m.gone && !w.broken[m] {
			in = append(in, m)
		}
	}
	return in
}
