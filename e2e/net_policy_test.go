package e2e

import (
	"fmt"
	"testing"
)

// An Allow closes its namespace but for what it names, on every machine, and for a pod
// that starts later from its first packet on.
func TestAllow(t *testing.T) {
	c := need(t)
	c.remove(t, "pod/db", "pod/friend", "pod/stranger", "pod/early", "allow/friends")
	labelled := func(name string) string {
		return podSpec{name: name, args: serve, more: "  labels: {app: " + name + "}\n"}.String()
	}
	c.apply(t, 1, "alice", join(labelled("db"), labelled("friend"), labelled("stranger")))
	url := c.awaitReady(t, 1, "db").url(t)
	for _, name := range []string{"friend", "stranger"} {
		c.awaitReady(t, 1, name)
		c.awaitFetch(t, name, url, "hello from db")
	}

	c.apply(t, 2, "alice", "kind: Allow\nname: friends\nspec:\n  from: {labels: {app: friend}}\n  to: {labels: {app: db}}\n  ports: {http: {port: 8080}}\n")
	c.awaitFetch(t, "stranger", url, "connection refused")
	c.awaitFetch(t, "friend", url, "hello from db")
	c.awaitFetch(t, "db", c.current(t, 1, "friend").url(t), "connection refused")

	c.apply(t, 3, "alice", podSpec{name: "early", args: fmt.Sprintf("[--get, %q]", url), restart: "never"}.String())
	early := c.await(t, 1, "early", "over", func(s seen) bool { return s.number("containers.app.pid") == 0 && s.status("containers.app.id") != "" })
	if code := early.number("containers.app.exit"); code != 1 {
		t.Errorf("a pod that asks at once ended with code %d, want 1: refused", code)
	}

	c.must(t, 1, "delete", "allow/friends")
	c.awaitFetch(t, "stranger", url, "hello from db")
}
