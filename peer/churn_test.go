package peer

import (
	"fmt"
	"testing"
	"time"

	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

// A probe that changes its mind all the time makes its loop write no more than its budget;
// the loop and the object are named, and when the probe settles so does the pod.
func TestEntryBudgetOfAFlappingProbe(t *testing.T) {
	c := newCluster(t, 3)
	c.run(3 * time.Second)
	c.write(1, pod(t, "web", "  containers: {app: {image: 'localhost/a:1', probes: {readiness: {tcp: 80}}}}\n"))
	home := c.status(1, "web").String("status.machine")
	var node *node
	for _, n := range c.cores {
		if n.core.self.Name == home {
			node = n
		}
	}
	seen, _ := node.core.See(podKey("web"))
	say := func(good bool) {
		h := loops.Health{Generation: loops.Generation(seen.Object.Status(), "app"), Report: loops.Report{Ready: good, Code: "ReadinessFailed", Message: "it is closed"}}
		node.core.Step(c.now, Probed{Key: podKey("web"), ID: seen.Object.ID, Container: "app", Health: h})
		c.run(100 * time.Millisecond)
	}
	begin := c.now
	for i := range 600 {
		say(i%2 == 0)
	}
	written := 0
	for _, h := range node.core.journal.recent.list {
		if h.Loop == "readiness" && h.Key == podKey("web") {
			written++
		}
	}
	if most := lifecycle.DefaultEntries + int(c.now.Sub(begin)/lifecycle.EntryEvery); written > most || written < lifecycle.DefaultEntries/2 {
		t.Errorf("600 reports in %s led to %d entries; the budget is %d", c.now.Sub(begin), written, most)
	}
	worst, _ := c.cores[0].core.Churn(time.Time{})
	if worst[0].Loop != "readiness" || worst[0].Worst != podKey("web") || worst[0].WorstEntries != written {
		t.Errorf("the worst is %+v; want readiness with %d entries about the pod", worst[0], written)
	}
	held, _ := node.core.Churn(time.Time{})
	now, _ := node.core.See(podKey("web"))
	if st, _ := now.Eval.Step("ready"); held[0].Held != 1 || st.Code != lifecycle.EntriesSpent {
		t.Errorf("its machine holds back %d, and says %s", held[0].Held, fmt.Sprint(st))
	}
	say(true)
	c.run(10 * time.Second)
	if got := c.status(2, "web").String("status.ready") + c.stands("web"); c.status(2, "web")["status.ready"] != "true" {
		t.Errorf("after the last report, which is good, it is %s", got)
	}
}
