package peer

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
)

// SeeAt returns an object as it stood when nothing later than a clock reading had been
// written: the fold of what the log on this machine's disk holds up to then. It reads the
// whole log, so that it is for people who look back, not for what happens all the time. The
// object is empty if nothing was written about it by then.
func (l *Loop) SeeAt(ctx context.Context, key api.Key, until uint64) (s Seen, err error) {
	var heads crdt.Heads
	if err := l.Query(ctx, func(c *Core) { heads = c.Heads() }); err != nil {
		return s, err
	}
	l.mu.Lock()
	disk := l.disk
	l.mu.Unlock()
	p := past{ref: crdt.Ref(key), until: until}
	for _, actor := range sortedActors(heads) {
		for r := (crdt.Range{Actor: actor, From: 1, To: heads[actor].Seq}); r.From <= r.To; {
			if err := ctx.Err(); err != nil {
				return s, err
			}
			batches, err := disk.ReadRange(r, serveBytes)
			if err != nil {
				return s, fmt.Errorf("read the log: %w", err)
			}
			last, err := p.read(batches)
			if err != nil {
				return s, err
			}
			if last < r.From {
				break // the rest is damaged, or gone
			}
			r.From = last + 1
		}
	}
	var fault error
	err = l.Query(ctx, func(c *Core) { s, fault = c.seeAt(p) })
	if err == nil {
		err = fault
	}
	return s, err
}

// past is what was written about one object up to a clock reading.
type past struct {
	ref     crdt.Ref
	until   uint64
	changes []decoded
	// latest is where the latest result of a step stands among the changes: a fold takes it
	// whatever came before, and of some steps there are very many.
	latest map[pastStep]int
}

type pastStep struct {
	incarnation crdt.ID
	step        string
}

// read takes batches in, and returns the last entry that they hold.
func (p *past) read(batches [][]byte) (last uint64, err error) {
	for _, raw := range batches {
		if last, err = p.batch(raw); err != nil {
			return 0, err
		}
	}
	return last, nil
}

func (p *past) batch(raw []byte) (last uint64, err error) {
	b, err := crdt.DecodeBatch(raw)
	if err != nil {
		return 0, fmt.Errorf("decode batch: %w", err)
	}
	mentions := func(raw []byte) bool { return bytes.Contains(raw, []byte(p.ref.Name)) }
	if !slices.ContainsFunc(b.Changes, mentions) {
		return b.Last(), nil // far cheaper than to decode what is about other objects
	}
	for _, ch := range readChanges(b) {
		if ch.readable && ch.Object == p.ref && ch.HLC <= p.until {
			p.add(ch)
		}
	}
	return b.Last(), nil
}

func (p *past) add(ch decoded) {
	if len(ch.Ops) != 1 || ch.Ops[0].Kind != crdt.OpResult || ch.Ops[0].Register == nil {
		p.changes = append(p.changes, ch)
		return
	}
	at := pastStep{ch.Incarnation, ch.Ops[0].Path}
	i, known := p.latest[at]
	attempt := ch.Ops[0].Register.Attempt
	switch {
	case known && attempt < p.changes[i].Ops[0].Register.Attempt:
	case known && attempt > p.changes[i].Ops[0].Register.Attempt:
		p.changes[i] = ch
	default: // of one attempt there may be several results; which one counts the fold knows
		put(&p.latest, at, len(p.changes))
		p.changes = append(p.changes, ch)
	}
}

// seeAt folds what was written up to then, by the rules that hold for everything.
func (c *Core) seeAt(p past) (Seen, error) {
	t, ok := c.engine.objects[p.ref]
	if !ok {
		return Seen{}, nil
	}
	state, err := c.journal.newState()
	if err != nil {
		return Seen{}, err
	}
	for _, ch := range p.changes {
		ch.At.Machine = c.journal.machine(ch.At.Actor)
		state.Apply(ch.Change, ch.id)
	}
	folded, ok := state.Object(p.ref)
	if !ok {
		return Seen{}, nil
	}
	snap := c.engine.snapshot(t, folded, nil).snap
	return Seen{Object: snap, Folded: folded, Graph: t.kind.Graph, Eval: lifecycle.Evaluation{
		Goal: t.kind.Goal(snap.Fields), Steps: t.kind.Graph.Recorded(snap),
	}}, nil
}
