package peer

import (
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

const hello = `
  containers:
    app: {image: localhost/hello:1, args: [a], resources: {cpu: 100m, memory: 64Mi}}
`

func TestApplyRunsPod(t *testing.T) {
	c := newCluster(t, 3)
	c.run(3 * time.Second)
	a := c.write(3, pod(t, "web", hello))
	if a.Err != nil || a.HeldBy == "" {
		t.Fatalf("answer %+v, want one that another machine holds", a)
	}
	c.run(2 * time.Second)
	for i := 1; i <= 3; i++ {
		s := c.status(i, "web")
		if s["status.ready"] != "true" || s["status.address"] == "" || s["status.machine"] == "" {
			t.Errorf("seen from m%d: %v", i, s)
		}
	}
	first := c.cores[0].core.journal.state.Hash()
	for _, n := range c.cores {
		if h := n.core.journal.state.Hash(); h != first {
			t.Errorf("m%d has state %v, m1 has %v", n.i, h, first)
		}
	}
}

func TestArgsRestartInPlace(t *testing.T) {
	c := newCluster(t, 3)
	c.run(3 * time.Second)
	c.write(1, pod(t, "web", hello))
	before := c.status(1, "web")
	c.write(2, pod(t, "web", "\n  containers:\n    app: {image: localhost/hello:1, args: [b], resources: {cpu: 100m, memory: 64Mi}}\n"))
	after := c.status(1, "web")
	for _, path := range []string{"status.machine", "status.address", "status.network.namespace"} {
		if before[path] != after[path] || before[path] == "" {
			t.Errorf("%s: %s, then %s", path, before[path], after[path])
		}
	}
	if before["status.containers.app.pid"] == after["status.containers.app.pid"] {
		t.Error("the container was not restarted")
	}
}

func TestDeleteTakesEverythingDown(t *testing.T) {
	c := newCluster(t, 3)
	c.run(3 * time.Second)
	c.write(1, pod(t, "web", hello))
	a := c.write(1, Edit{Kind: EditDelete, Key: api.Key{Kind: "Pod", Namespace: "default", Name: "web"}})
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	c.run(2 * time.Second)
	for _, n := range c.cores {
		if len(n.host.pods) > 0 || len(n.host.nets) > 0 {
			t.Errorf("m%d keeps %v %v", n.i, n.host.pods, n.host.nets)
		}
		if l := n.core.engine.list("Pod"); len(l) != 0 {
			t.Errorf("m%d lists %v", n.i, l[0].Key)
		}
		for machine, used := range n.core.engine.usage {
			if !used.Equal(lifecycle.Reservation{}) {
				t.Errorf("m%d counts %+v as reserved on %q", n.i, used, machine)
			}
		}
	}
}

// A peer that was killed comes back from its disk, adopts what runs, and writes
// nothing about what did not change.
func TestRestartAdopts(t *testing.T) {
	c := newCluster(t, 3)
	c.run(3 * time.Second)
	c.write(1, pod(t, "web", hello))
	c.run(2 * time.Second)
	var home *node
	for _, n := range c.cores {
		if len(n.host.pods) == 1 {
			home = n
		}
	}
	before, entries := c.status(1, "web"), home.core.journal.entries()
	c.boot(home, c.cores[0].core.trust.Since(0), c.cores[0].core.trust.Genesis())
	c.connect()
	pids := home.host.pods
	home.host.pods = map[string]int{}
	for id := range pids {
		home.host.pods[id] = pids[id] - 1 // Ensure of the fake host counts one up: the same pid again
	}
	c.run(5 * time.Second)
	after := c.status(1, "web")
	if after["status.ready"] != "true" || after["status.containers.app.pid"] != before["status.containers.app.pid"] {
		t.Errorf("after the restart: %v", after)
	}
	if n := home.core.journal.entries(); n != entries {
		t.Errorf("%d entries before, %d after a restart that changed nothing", entries, n)
	}
}
