package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

// Disk is where a core's commits go.
type Disk interface {
	// Commit makes everything in it durable with one sync, or nothing. After an
	// error the disk must be opened anew.
	Commit(crdt.Commit) error
	// ReadRange returns encoded batches of the range from its start, at most about
	// maxBytes of them, and at least one if there is any.
	ReadRange(r crdt.Range, maxBytes int) ([][]byte, error)
}

// Transport carries frames to other members. Send never blocks for long; a frame
// that can't be sent is dropped, and anti-entropy repairs that.
type Transport interface {
	Send(to crdt.MachineID, frame []byte) error
}

// LoopConfig is what a loop drives. All fields are required but for Boot and Now.
type LoopConfig struct {
	// Open opens the disk and rebuilds the core from it. It is called again after a
	// failed commit: a sync is never retried.
	Open      func(ctx context.Context) (*Core, Disk, error)
	Transport Transport
	Host      lifecycle.Host
	Verifier  *Verifier
	Logger    *slog.Logger
	// Boot reads the boot-time clock, which leases are counted on. Optional: without it
	// this machine takes none.
	Boot func() time.Duration
	// Now reads the clock. Optional: the machine's.
	Now func() time.Time
}

func (c LoopConfig) validate() error {
	if c.Open == nil || c.Transport == nil || c.Host == nil || c.Verifier == nil || c.Logger == nil {
		return errors.New("configure loop: every field but Boot and Now is required")
	}
	return nil
}

// queueLimit bounds the events that wait for a turn. Whoever posts beyond it blocks,
// which is the back-pressure on streams.
const queueLimit = 4096

// turnLimit bounds the events of one turn, and with it the size of a commit.
const turnLimit = 512

// Loop drives one core: it gathers what happened, steps the core, makes the turn
// durable with one sync, and only then lets its effects go.
type Loop struct {
	cfg     LoopConfig
	events  chan any // Event or query
	version atomic.Uint64
	ended   chan struct{} // closed when Run returns

	mu      sync.Mutex // guards what follows
	waiting map[uint64]chan Answer
	lastID  uint64
	down    error         // why nothing is written now; nil while all is well
	unsaved error         // of the last commit, if it failed
	turned  chan struct{} // closed at the end of the next turn that wrote something
	disk    Disk          // that the core of now was opened from
}

// query reads the core between two turns.
type query struct {
	do   func(*Core)
	done chan error
}

// errStopping answers those who ask a peer that is on its way down.
var errStopping = errors.New("the peer is stopping")

// NewLoop returns a loop that does nothing until Run.
func NewLoop(cfg LoopConfig) (*Loop, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Loop{cfg: cfg, events: make(chan any, queueLimit), waiting: map[uint64]chan Answer{}, turned: make(chan struct{}), ended: make(chan struct{})}, nil
}

// String names the task.
func (l *Loop) String() string { return "core" }

// reopenAfter is the pause before a disk that failed is opened again.
const reopenAfter = 2 * time.Second

// Run drives the core until the context ends. A failed commit is not the end: the
// core is rebuilt from what the disk holds.
func (l *Loop) Run(ctx context.Context) error {
	defer close(l.ended)
	var outside []Event // as the life of the core before saw it
	for first := true; ; first = false {
		core, disk, err := l.cfg.Open(ctx)
		if err == nil {
			l.opened(disk)
			for _, e := range outside {
				core.Step(l.cfg.Now(), e)
			}
			err = l.drive(ctx, core, disk)
			outside = core.Outside()
		} else if first {
			return fmt.Errorf("open the data directory: %w", err)
		}
		if ctx.Err() != nil {
			l.fail(api.Errorf(api.Internal, "the peer is stopping"))
			return nil
		}
		if errors.Is(err, errRebuild) {
			l.cfg.Logger.Warn("some of the log counts otherwise now; it is folded again")
			l.fail(asError(err))
			continue
		}
		if errors.As(err, new(*crdt.Unreadable)) {
			l.cfg.Logger.Warn("the checkpoint can't be read any more; the log is folded anew", "error", err)
			l.fail(asError(err))
			continue
		}
		l.cfg.Logger.Error("nothing can be written", "error", err, "again", reopenAfter)
		l.setDown(err)
		l.fail(asError(err))
		select {
		case <-ctx.Done():
		case <-time.After(reopenAfter):
		}
	}
}

// errRebuild ends a core that has to be built anew from the disk: an actor has signed two
// histories, or a machine was removed and wrote more than its remover had seen.
var errRebuild = errors.New("this peer reads its log again, since some of it counts otherwise now; look what became of it, and try again")

// Turned returns a channel that is closed at the end of the next turn that wrote
// something or looked at an object: whoever follows the state reads it again then.
func (l *Loop) Turned() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turned
}

func (l *Loop) wakeWatchers() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.turned)
	l.turned = make(chan struct{})
}

// fail answers everybody who waits.
func (l *Loop) fail(err *api.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, ch := range l.waiting {
		ch <- Answer{Request: id, Err: err}
		delete(l.waiting, id)
	}
}

// drive is the loop proper. It ends with the context or with a failed commit.
func (l *Loop) drive(ctx context.Context, core *Core, disk Disk) error {
	d := &driver{l: l, core: core, disk: disk, cancels: map[uint64]context.CancelFunc{}, stepped: true}
	defer l.version.Add(1)
	defer func() { _ = core.Close() }() // of what was only read
	defer d.stop()
	return readable(func() error { return d.run(ctx) })
}

func (d *driver) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if err := d.turn(ctx); err != nil {
			return err
		}
		if d.more {
			timer.Reset(0)
		} else {
			timer.Reset(d.untilWake())
		}
		select {
		case <-ctx.Done():
			d.saveLast()
			return ctx.Err()
		case <-timer.C:
			d.step(Tick{})
		case e := <-d.l.events:
			d.take(e)
			d.drain()
		}
	}
}

// driver is one life of the core under the loop.
type driver struct {
	l       *Loop
	core    *Core
	disk    Disk
	wake    time.Time
	more    bool
	actions sync.WaitGroup
	cancels map[uint64]context.CancelFunc // of running actions; used by the loop only
	queries []query
	stepped bool        // something happened since the last turn
	saving  atomic.Bool // a checkpoint is being written
}

// longest is how long the loop sleeps at most.
const longest = time.Minute

func (d *driver) untilWake() time.Duration {
	if d.wake.IsZero() {
		return longest
	}
	return min(max(d.wake.Sub(d.l.cfg.Now()), 0), longest)
}

func (d *driver) take(e any) {
	switch e := e.(type) {
	case query:
		d.queries = append(d.queries, e)
	case Event:
		if done, ok := e.(ActionDone); ok {
			delete(d.cancels, done.Action)
		}
		d.step(e)
	}
}

func (d *driver) step(e Event) {
	d.l.version.Add(1)
	d.stepped = true
	if d.l.cfg.Boot != nil {
		d.core.Boot(d.l.cfg.Boot())
	}
	d.core.Step(d.l.cfg.Now(), e)
}

// drain takes what else has queued up, so that it shares the turn's sync, and what those
// post who only wait for this goroutine to let go of the processor.
func (d *driver) drain() {
	yielded := false
	for n := 0; n < turnLimit; {
		select {
		case e := <-d.l.events:
			d.take(e)
			n, yielded = n+1, false
		default:
			if yielded {
				return
			}
			runtime.Gosched()
			yielded = true
		}
	}
}

// turn carries out one Ready, in the order that it demands.
func (d *driver) turn(ctx context.Context) error {
	if !d.stepped { // somebody only asks
		d.answerQueries()
		d.saveIfDue(ctx)
		return nil
	}
	d.stepped = false
	r := d.core.Ready()
	for _, e := range r.Relay {
		d.send(e)
	}
	if !r.Commit.Empty() {
		err := d.disk.Commit(r.Commit)
		d.l.saved(err)
		if err != nil {
			return fmt.Errorf("make the turn durable: %w", err)
		}
	}
	for _, e := range r.Send {
		d.send(e)
	}
	for _, s := range r.Serve {
		d.serve(s)
	}
	for _, id := range r.Cancel {
		if cancel, ok := d.cancels[id]; ok {
			cancel()
		}
	}
	if keeper, ok := d.l.cfg.Host.(loops.Leaser); ok {
		for _, lease := range r.Leases {
			keeper.Leases().Tell(lease)
		}
	}
	for _, a := range r.Start {
		d.start(ctx, a)
	}
	d.l.answer(r.Answers)
	d.core.Advance()
	d.wake = r.Wake
	d.more = len(r.Serve) > 0
	d.l.cfg.Verifier.Update(d.core.trust.now)
	d.answerQueries()
	if !r.Commit.Empty() || r.Looked {
		d.l.wakeWatchers()
	}
	if r.Rebuild {
		return errRebuild
	}
	d.saveIfDue(ctx)
	return nil
}

func (d *driver) answerQueries() {
	for _, q := range d.queries {
		q.do(d.core)
		q.done <- nil
	}
	d.queries = nil
}

func (d *driver) send(e Envelope) {
	if err := d.l.cfg.Transport.Send(e.To, EncodeMessage(e.Message)); err != nil {
		d.l.cfg.Logger.Debug("message dropped", "to", e.To, "error", err)
	}
}

// stop ends what still runs. Actions that were cut off are looked at again by the
// next life: what they may have made is on disk.
func (d *driver) stop() {
	for _, cancel := range d.cancels {
		cancel()
	}
	ended := make(chan struct{})
	go func() {
		d.actions.Wait()
		close(ended)
	}()
	for {
		select {
		case <-ended:
			for _, q := range d.queries {
				q.done <- errStopping
			}
			return
		case e := <-d.l.events:
			if q, ok := e.(query); ok {
				q.done <- errStopping
			}
		}
	}
}
