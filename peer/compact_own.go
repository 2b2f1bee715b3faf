package peer

import (
	"cmp"
	"maps"
	"time"

	"starling.dev/starling/crdt"
)

// Retention bounds how much is kept of what loops on this machine wrote. People's changes,
// and results that count, are kept in any case.
type Retention struct {
	// Budget is how many bytes the machine's own log may take on a disk before results
	// that were superseded are compacted. Optional: 16 MiB.
	Budget int64
	// Keep is how old a result is at least when it is compacted. Optional: an hour.
	Keep time.Duration
	// Every is how often the log may be gone through. Optional: 10 minutes.
	Every time.Duration
	// Hold is how long what loops made stays known once it is deleted and taken down.
	// Optional: a day.
	Hold time.Duration
}

func (r Retention) withDefaults() Retention {
	return Retention{
		Budget: cmp.Or(r.Budget, 16<<20), Keep: cmp.Or(r.Keep, time.Hour), Every: cmp.Or(r.Every, 10*time.Minute),
		Hold: cmp.Or(r.Hold, 24*time.Hour),
	}
}

// ownLogs are the logs of this machine, in all its lives, as the last pass found them.
type ownLogs struct {
	next time.Time // when to go on, or to begin the next pass
	// bytes is what they take, once a pass has counted them, and what was written since.
	bytes   int64
	counted bool
	pass    *pass
	// vain is what a pass found nothing in to compact, now or when it is older: until there is
	// more, neither would another. Nil if there is no such pass.
	vain *Digest
	// considered are the incarnations that a pass was begun for, since they may be collected.
	considered map[crdt.ID]bool
}

// pass goes through the own logs once.
type pass struct {
	actors []crdt.ActorID // still to be read, the first one from the entry on
	from   uint64
	bytes  int64
	found  map[crdt.ActorID]crdt.Seqs // superseded
	saves  int64
	begun  Digest // what there was then
	open   bool   // something was too young to be judged, or can't be read
	// of are the incarnations whose entries are covered, and ended those entries, with the
	// creations of what has ended. founded says which logs the creations are in.
	of      map[crdt.ID]crdt.ActorID
	ended   map[crdt.ActorID]crdt.Seqs
	founded map[crdt.ActorID]map[crdt.ActorID]bool
}

// wrote counts what was written since the last pass.
func (o *ownLogs) wrote(b crdt.Batch) {
	for _, c := range b.Changes {
		o.bytes += int64(len(c))
	}
	o.bytes += 128 // the rest of the batch
}

// ownPass goes on with a pass over the own logs, or begins one if they are too large.
func (k *compaction) ownPass() {
	o, limits := &k.own, k.c.cfg.Retention.withDefaults()
	if o.next.IsZero() {
		o.next = k.c.now.Add(limits.Every)
	}
	if k.c.now.Before(o.next) {
		return
	}
	if o.pass == nil {
		now, due := k.c.Digest(), k.due(limits.Hold)
		vain := o.counted && o.bytes <= limits.Budget || o.vain != nil && *o.vain == now
		if vain && !due {
			o.next = k.c.now.Add(limits.Every)
			return
		}
		o.pass = &pass{
			from: 1, found: map[crdt.ActorID]crdt.Seqs{}, ended: map[crdt.ActorID]crdt.Seqs{},
			of: maps.Clone(k.collected), founded: map[crdt.ActorID]map[crdt.ActorID]bool{}, begun: now,
		}
		for _, actor := range sortedActors(k.c.journal.log.Heads()) {
			if k.c.journal.machine(actor) == k.c.self.ID {
				o.pass.actors = append(o.pass.actors, actor)
			}
		}
	}
	k.readOwn(o.pass, limits)
	o.next = k.c.now.Add(sweepEvery)
	if len(o.pass.actors) > 0 {
		return
	}
	o.next, o.bytes, o.counted = k.c.now.Add(limits.Every), o.pass.bytes, true
	if o.vain = nil; len(o.pass.found) == 0 && !o.pass.open {
		o.vain = &o.pass.begun
	}
	if o.bytes <= limits.Budget {
		o.pass.found = nil
	}
	k.state(o.pass)
	k.passedOver(o.pass)
	o.bytes -= o.pass.saves
	o.pass = nil
}

// readOwn looks at the next entries of a pass.
func (k *compaction) readOwn(p *pass, limits Retention) {
	if len(p.actors) == 0 {
		return
	}
	actor := p.actors[0]
	head := k.c.journal.log.Head(actor).Seq
	raws, err := k.c.cfg.Stored(crdt.Range{Actor: actor, From: p.from, To: head}, sweepBytes)
	for _, raw := range raws {
		b, e := crdt.DecodeBatch(raw)
		if e != nil || b.Actor != actor || b.Last() < p.from {
			break
		}
		p.bytes += int64(len(raw))
		k.note(p, b, limits)
		p.from = b.Last() + 1
	}
	if err != nil || len(raws) == 0 || p.from > head { // what can't be read is found out elsewhere
		p.open = p.open || err != nil || p.from <= head
		p.actors, p.from = p.actors[1:], 1
	}
}

// note finds what may be covered in a batch: results that are superseded, the creations of
// what has ended, and all else that loops wrote about what is collected.
func (k *compaction) note(p *pass, b crdt.Batch, limits Retention) {
	l, head := k.logs[b.Actor], k.c.journal.log.Head(b.Actor).Seq
	keep := k.c.now.Add(-limits.Keep).UnixMilli()
	for i, raw := range b.Changes {
		seq := b.First + uint64(i)
		if l != nil && l.covered.Has(seq) || seq > head || crdt.IsStub(raw) {
			continue
		}
		ch, err := crdt.DecodeChange(raw)
		one := decoded{ch, crdt.ChangeID(b.Actor, raw), err == nil}
		creation, collected := p.of[ch.Incarnation]
		switch {
		case err == nil && (collected && isLoop(ch.Author) || k.ends(one, limits.Hold)):
			pushTo(p.ended, b.Actor, seq)
			if collected && creation != b.Actor {
				p.rests(b.Actor, creation)
			}
		case err == nil && crdt.Millis(ch.HLC) > keep:
			p.open = true
			continue
		case k.superseded(one):
			pushTo(p.found, b.Actor, seq)
		default:
			continue
		}
		p.saves += int64(len(raw))
	}
}

// rests notes that what is covered of a log presumes a creation in another.
func (p *pass) rests(actor, creation crdt.ActorID) {
	if p.founded[actor] == nil {
		p.founded[actor] = map[crdt.ActorID]bool{}
	}
	p.founded[actor][creation] = true
}

func pushTo(sets map[crdt.ActorID]crdt.Seqs, actor crdt.ActorID, seq uint64) {
	set := sets[actor]
	set.Push(seq)
	sets[actor] = set
}

// state says in this machine's name what a pass found, and has everybody know.
func (k *compaction) state(p *pass) {
	var said []crdt.Compacted
	for _, actor := range sortedActors(k.c.journal.log.Heads()) {
		birth, ok := k.c.journal.log.Birth(actor)
		seqs := p.found[actor].Union(p.ended[actor])
		if !ok || len(seqs) == 0 {
			continue
		}
		if l := k.logs[actor]; l != nil {
			seqs = seqs.Union(l.covered)
		}
		st := crdt.SignCompacted(crdt.Compacted{PublicKey: birth.PublicKey, Nonce: birth.Nonce, Seqs: seqs, Presumes: k.presumes(p, actor)}, k.c.cfg.Sign)
		if k.learn(st) {
			said = append(said, st)
		}
	}
	k.spread(crdt.MachineID{}, said)
}
