package peer

import (
	"maps"
	"slices"
)

// Outside lists what this core was told of the world and no disk holds: who is alive, who is
// connected, what probes last said. Nobody says it twice, so that a core that takes its
// place without the program being started anew has to hear it from here.
func (c *Core) Outside() []Event {
	var events []Event
	for _, id := range slices.SortedFunc(maps.Keys(c.members.all), compareMachines) {
		m := c.members.all[id]
		if m.alive {
			events = append(events, Membership{Machine: id, Alive: true})
		}
		if m.connected {
			events = append(events, Connection{Machine: id, Up: true})
		}
	}
	for _, id := range sortedKeys(c.engine.health) {
		for _, container := range sortedKeys(c.engine.health[id]) {
			events = append(events, c.engine.health[id][container])
		}
	}
	return events
}
