package sim

import (
	"slices"

	"starling.dev/starling/crdt"
	"starling.dev/starling/quorum"
)

// voters looks at the only quorum there is: an epoch has one set of voters, whoever tells
// of it, and each was chosen by a majority of the voters before.
func (c *checker) voters(m *machine) {
	epoch, voters := m.core.Voters()
	known, ok := c.rolls[epoch]
	if !ok {
		c.rolls[epoch] = voters
		c.w.say("%s tells of %d voters in epoch %d", m.name, len(voters), epoch)
		c.changed(epoch, voters)
		return
	}
	if !slices.Equal(known, voters) {
		c.w.fail(7, "%s has other voters in epoch %d than those that were chosen: %v, not %v", m.name, epoch, voters, known)
	}
}

// changed compares an epoch with the one before: majorities of the two must meet.
func (c *checker) changed(epoch uint64, voters []crdt.MachineID) {
	c.w.sometimes("the voters change")
	before, ok := c.rolls[epoch-1]
	if !ok {
		return
	}
	kept := 0
	for _, v := range voters {
		if slices.Contains(before, v) {
			kept++
		}
	}
	all := len(before) + len(voters) - kept
	if quorum.Majority(len(before))+quorum.Majority(len(voters)) <= all && len(before) > 1 {
		c.w.fail(7, "majorities of epochs %d and %d need not meet", epoch-1, epoch)
	}
}
