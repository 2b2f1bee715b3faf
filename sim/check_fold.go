package sim

import (
	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
)

// refold is invariant 4: the fold depends on no order, and counts nothing twice.
func (c *checker) refold(m *machine, want crdt.ID) {
	state, err := crdt.NewState(crdt.Config{
		Level: m.level, Owner: api.OwnerOf, StepOwner: api.StepOwner, SpecOwner: api.SpecOwner, Parent: api.OwnerParent, Permits: m.core.AuthLog().Permits,
	})
	if err != nil {
		c.w.fail(4, "%v", err)
		return
	}
	all := c.logOf(m)
	r := c.w.random.check
	for range len(all) / 10 {
		all = append(all, pick(r, all))
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, ch := range all {
		state.Apply(ch, ch.ID())
	}
	c.w.sometimes("a log is folded in another order")
	if got := state.Hash(); got != want {
		c.w.fail(4, "the log of %s, folded in another order, gives the state %v, not %v", m.name, got, want)
	}
}

// logOf reads all changes on a machine's disk that it can read and has not refused.
func (c *checker) logOf(m *machine) (all []crdt.Change) {
	owners := map[crdt.ActorID]crdt.MachineID{}
	_, _ = m.disk.Batches(func(b crdt.Batch) error {
		if b.Birth != nil {
			owners[b.Actor] = crdt.MachineIDOf(b.Birth.PublicKey)
		}
		from, refused := m.core.Refused(b.Actor)
		for i, hash := range b.Hashes() {
			at := crdt.Head{Seq: b.First + uint64(i), Hash: hash}
			ch, err := crdt.DecodeChange(b.Changes[i])
			if err != nil || refused && at.Seq >= from || m.core.Covers(b.Actor, at.Seq) {
				continue
			}
			ch.At = crdt.Place{Machine: owners[b.Actor], Actor: b.Actor, Head: at}
			all = append(all, ch)
		}
		return nil
	})
	return all
}
