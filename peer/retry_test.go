package peer

import (
	"testing"
	"time"
)

// A pod that fits nowhere is not looked at again and again while nothing changes, and at once
// when there is room.
func TestBlockedDecisionsDoNotPoll(t *testing.T) {
	c := newCluster(t, 1)
	c.run(time.Second)
	large := func(name string) Edit {
		return pod(t, name, "  containers:\n    app:\n      image: localhost/a:1\n      resources: {cpu: 1500m}\n")
	}
	c.write(1, large("one"))
	c.write(1, large("two"))
	c.run(2 * time.Minute)
	core := c.cores[0].core
	if c.status(1, "one")["status.ready"] != "true" || c.status(1, "two")["status.ready"] == "true" {
		t.Fatalf("not one of two pods runs: %v, %v", c.status(1, "one"), c.status(1, "two"))
	}
	if at := core.engine.wakes.next(); !at.IsZero() && at.Sub(c.now) < 5*time.Minute {
		t.Errorf("something is looked at again in %s", at.Sub(c.now))
	}
	c.write(1, Edit{Kind: EditDelete, Key: large("one").Key})
	if c.status(1, "two")["status.ready"] != "true" {
		t.Errorf("there is room, and it is %v", c.status(1, "two"))
	}
}
