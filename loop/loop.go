package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"connectrpc.com/connect"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

// Fields maps dotted paths to canonical JSON values; see [api.Fields] for its readers.
type Fields = api.Fields

// Loop is a control loop.
type Loop struct {
	// Name owns the fields below status.loops.NAME. Required.
	Name  string
	Steps []Step
}

// Step is one action of the loop at one place in a kind's lifecycle, where it is called
// LOOP:NAME.
type Step struct {
	// Name and Kind ("Pod") are required.
	Name, Kind string
	// After and Before order the step; Requires and RequiredBy make one wait for the
	// other to be done; Wants and WantedBy do so as well, but a failure holds up nobody. They
	// name steps and targets.
	After, Before, Requires, RequiredBy, Wants, WantedBy []string
	// Reads are the fields that the step is given, with all below them; "*" stands for a
	// key of a map. When one changes the step runs again.
	Reads []string
	// Outputs are what Do returns, below status.loops.LOOP.
	Outputs []string
	// Consults are kinds of objects ("Machine") that wake the step while it waits, when one
	// of them changes.
	Consults []string
	// Claims are resources outside of the cluster that no other loop may touch.
	Claims []string
	// Children is the kind of the objects that the step makes with [Call.Own]; empty for
	// none.
	Children string
	// InKind: the Kind of the step's objects defines the step, so that only Name, Kind,
	// Children, Do and Undo count here.
	InKind bool
	// Timeout bounds one attempt; zero for one minute.
	Timeout time.Duration
	// Every has Do called again in this interval, though nothing that it reads changed, to
	// look at what no field tells: a load, a queue. Zero for never.
	Every time.Duration
	// Entries is how many entries the loop may write about one object at once; zero for 60.
	// Of several steps the greatest counts.
	Entries int64
	// By and NotBy select whose edits call the step, as "user:*": it is given the spec as one
	// of those authors last left it, and passes over objects that none of them edited.
	By, NotBy []string
	// OnExecutor: the step is done by the peer that hashing gives the object, instead of
	// the one of the object's machine.
	OnExecutor bool
	// Now: objects that were there before the step run it at once, instead of at their
	// next edit.
	Now bool

	// Do does the step. Required. ctx ends at the deadline, and when the step is not
	// wanted any more.
	Do func(ctx context.Context, c Call) (Fields, error)
	// Undo takes the step back on the way down; nil if there is nothing to take back.
	Undo func(ctx context.Context, c Call) error
}

// Call is one object at the step.
type Call struct {
	Object api.Key
	// ID is the object's identity: another object of the same name has another.
	ID  string
	Rev uint64
	// Fields holds the declared reads, with defaults. Previous holds what the step itself
	// returned the last time.
	Fields, Previous Fields
	Machine          string
	Attempt          uint64 // counts from 1
	// Children are the children that the step made before, by slot.
	Children map[int]Child

	owned *owned
}

// Child is an object that the step made, as it stands.
type Child struct {
	Name string
	// State is serving (it runs its spec and is ready), running (it is not ready),
	// changing (it does not run its spec yet) or leaving.
	State string
	// Address and Machine are a pod's, once it has them.
	Address, Machine string
}

// Serving reports whether the child runs its spec and is ready.
func (c Child) Serving() bool { return c.State == "serving" }

// owned gathers the children that a call asks for.
type owned struct {
	declared bool
	specs    map[int]Fields
}

// Own asks for a child in a slot, 0 or more, with a spec: it is made, or changed, or left
// alone where it is so already. All children that a call does not ask for are deleted, so
// ask for each of them, each time; a call that fails changes none.
func (c Call) Own(slot int, spec Fields) { c.owned.specs[slot] = spec }

// Failure is an error with more to say than a sentence.
type Failure struct {
	Code    string // for programs; one of package api's, or one of the loop's own
	Message string // one sentence: what is wrong, where, and what to do
	// Wait: trying again alone will not help; wait until something that is read changes.
	Wait bool
}

// Error returns the sentence.
func (f *Failure) Error() string { return f.Message }

// Pending is how a step says that it has done what it could, and waits for a child, or for
// something else that it reads, to be called again.
func Pending(message string) error { return &pending{message} }

type pending struct{ message string }

func (p *pending) Error() string { return p.message }

// Config says where a loop runs.
type Config struct {
	// Socket is the peer's; empty for that of this machine.
	Socket string
	Loop   Loop
	Logger *slog.Logger // required
}

func (c Config) validate() error {
	if c.Logger == nil {
		return errors.New("configure loop: Logger is required")
	}
	if err := api.CheckName(c.Loop.Name); err != nil {
		return fmt.Errorf("configure loop: %w", err)
	}
	for _, s := range c.Loop.Steps {
		if s.Name == "" || s.Kind == "" || s.Do == nil {
			return fmt.Errorf("configure loop %s, step %q: Name, Kind and Do are required", c.Loop.Name, s.Name)
		}
	}
	return nil
}

// attachAgain is the pause after the peer was not there, or went away.
const attachAgain = time.Second

// Run attaches the loop and serves its calls until ctx ends. A peer that refuses the
// loop (a field that another owns, a cycle) ends it with the reason; one that is away
// is waited for.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.validate(); err != nil {
		return err
	}
	socket, err := client.Selection{Socket: cfg.Socket}.Path()
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		err := serve(ctx, client.New(socket), cfg)
		switch {
		case ctx.Err() != nil:
		case refused(err):
			return fmt.Errorf("attach loop %s: %w", cfg.Loop.Name, err)
		default:
			cfg.Logger.Warn("the loop is not attached", "loop", cfg.Loop.Name, "error", err, "again", attachAgain)
			select {
			case <-ctx.Done():
			case <-time.After(attachAgain):
			}
		}
	}
	return nil
}

// refused reports whether trying again is of no use.
func refused(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument, connect.CodeAlreadyExists, connect.CodePermissionDenied:
		return true
	}
	return false
}

func declare(l Loop) *apiv1.AttachRequest {
	req := &apiv1.AttachRequest{Loop: l.Name}
	for _, s := range l.Steps {
		if s.InKind {
			continue
		}
		d := &apiv1.LoopStep{
			Name: s.Name, Kind: s.Kind, After: s.After, Before: s.Before, Requires: s.Requires, RequiredBy: s.RequiredBy, Wants: s.Wants, WantedBy: s.WantedBy,
			Reads: s.Reads, Outputs: s.Outputs, Claims: s.Claims, Consults: s.Consults, Children: s.Children, TimeoutMs: s.Timeout.Milliseconds(), EveryMs: s.Every.Milliseconds(), Undo: s.Undo != nil,
			Entries: s.Entries, By: s.By, NotBy: s.NotBy,
		}
		if s.OnExecutor {
			d.Where = api.WhereExecutor
		}
		if s.Now {
			d.Existing = api.ExistingNow
		}
		req.Steps = append(req.Steps, d)
	}
	return req
}
