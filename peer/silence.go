package peer

import (
	"slices"
	"time"
)

// What waits for a silent machine has the voters asked about it: once for all that wait,
// as long as anything does.

// setAsked notes about which machines the object has the voters asked.
func (e *engine) setAsked(t *tracked, machines []string) {
	if slices.Equal(t.asks, machines) {
		return
	}
	for _, name := range t.asks {
		e.asked.remove(name, t)
	}
	t.asks = machines
	for _, name := range machines {
		e.asked.add(name, t)
	}
}

// ask has the voters asked about every machine that something waits for, when it is time.
func (e *engine) ask() {
	for _, name := range sortedKeys(e.asked) {
		e.c.askVoters(name)
	}
}

// nextAsk is when the voters are to be asked next.
func (e *engine) nextAsk() (next time.Time) {
	for name := range e.asked {
		if id, ok := e.c.idOf(name); ok && !e.c.members.alive(id) {
			next = earliest(next, e.c.members.get(id, e.c.now).lastAsk.Add(askEvery))
		}
	}
	return next
}

// silenceChanged looks again at all that a machine holds up: a majority of the voters finds
// it silent now, or no longer.
func (e *engine) silenceChanged(name string) {
	e.wakeTopic(e.memberTopic(name))
	e.wakeTopic(kindTopic("members"))
	e.wakeIndex(e.placed, name)
	e.sortQueue()
}
