package peer

import (
	"syscall"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
)

// brief has machines keep nothing for long.
var brief = Retention{Keep: time.Hour, Every: time.Second, Hold: 3 * time.Second}

// rolled has a deployment's pods come and go.
func rolled(t testing.TB, c *cluster, times int) {
	for range times {
		for _, replicas := range []int{3, 1} {
			if a := c.patch(1, api.Fields{"spec.replicas": api.Int(replicas)}); a.Err != nil {
				t.Fatal(a.Err)
			}
			c.run(3 * time.Second)
		}
	}
}

// counts are the content and the names of pods that a machine has.
func (n *node) counts() (content, names int) {
	for _, b := range n.batch {
		for _, raw := range b.Changes {
			if ch, err := crdt.DecodeChange(raw); err == nil && ch.Object.Kind == "Pod" {
				content++
			}
		}
	}
	for _, ref := range n.core.journal.state.Refs() {
		if ref.Kind == "Pod" {
			names++
		}
	}
	return content, names
}

// TestChildrenAreCollected: pods that a deployment made and deleted leave nothing behind but
// stubs, on any machine, also after a start, and at one that was away meanwhile.
func TestChildrenAreCollected(t *testing.T) {
	c := newCluster(t, 3)
	c.retention = brief
	for i := range c.cores {
		c.restart(i + 1)
	}
	c.run(3 * time.Second)
	if a := c.write(2, pinned(t, "web", threePods)); a.Err != nil {
		t.Fatal(a.Err)
	}
	c.run(5 * time.Second)
	rolled(t, c, 2)
	c.cutOff(3)
	rolled(t, c, 2)
	c.run(20 * time.Second)
	if content, names := c.cores[0].counts(); names != 1 || content > 40 {
		t.Errorf("of pods %d entries and %d names are left, want those of 1 pod", content, names)
	}
	c.wantPods(1, "0:2")
	c.mend()
	c.run(40 * time.Second)
	for i, n := range c.cores {
		content, names := n.counts()
		if names != 1 || content > 40 || len(n.core.journal.state.Waiting()) > 0 {
			t.Errorf("m%d has %d entries and %d names of pods; %d changes wait", i+1, content, names, len(n.core.journal.state.Waiting()))
		}
		if pods := c.cores[i].core.Figures()["objects"]; pods != 5 {
			t.Errorf("m%d keeps an eye on %d objects", i+1, pods)
		}
		c.wantPods(i+1, "0:2")
	}
	same(t, c.cores[0], c.cores[1], c.cores[2])
	for i := range c.cores {
		c.restart(i + 1)
	}
	c.run(10 * time.Second)
	same(t, c.cores[0], c.cores[1], c.cores[2])
	c.wantPods(3, "0:2")
	if _, names := c.cores[2].counts(); names != 1 {
		t.Errorf("%d names of pods after a start", names)
	}
	if left := c.cores[2].core.Figures()["collected"]; left != 0 {
		t.Errorf("%d incarnations are remembered still", left)
	}
}

// TestHoldLasts: what is deleted stays known for its hold, whatever else is compacted.
func TestHoldLasts(t *testing.T) {
	c := newCluster(t, 1)
	c.retention = Retention{Budget: 1, Keep: time.Second, Every: time.Second, Hold: time.Minute}
	c.restart(1)
	c.run(3 * time.Second)
	if a := c.write(1, pinned(t, "web", threePods)); a.Err != nil {
		t.Fatal(a.Err)
	}
	c.run(5 * time.Second)
	rolled(t, c, 1)
	c.run(40 * time.Second)
	if _, names := c.cores[0].counts(); names != 3 {
		t.Errorf("%d names of pods are known within the hold, want 3", names)
	}
	c.run(40 * time.Second)
	if _, names := c.cores[0].counts(); names != 1 {
		t.Errorf("%d names of pods are known after the hold, want 1", names)
	}
}

// TestPredecessorsAreCollected: what had a name before is collected while another has it.
func TestPredecessorsAreCollected(t *testing.T) {
	c := newCluster(t, 1)
	c.retention = Retention{Every: time.Second, Hold: 20 * time.Second}
	c.restart(1)
	c.run(3 * time.Second)
	if a := c.write(1, pinned(t, "web", threePods)); a.Err != nil {
		t.Fatal(a.Err)
	}
	c.run(3 * time.Second)
	core := c.cores[0].core
	lives := func() (n int) {
		for _, ref := range core.journal.state.Refs() {
			if ref.Kind == "Pod" {
				n += len(core.journal.state.Incarnations(ref))
			}
		}
		return n
	}
	for _, replicas := range []int{1, 3, 1, 3} { // faster than the hold
		if a := c.patch(1, api.Fields{"spec.replicas": api.Int(replicas)}); a.Err != nil {
			t.Fatal(a.Err)
		}
		c.run(3 * time.Second)
	}
	if lives() < 5 {
		t.Fatalf("%d pods are known, want 3 and some before them", lives())
	}
	c.run(40 * time.Second)
	if lives() != 3 {
		t.Errorf("%d pods are known, want 3", lives())
	}
}

// TestLateMachineTakesDownWhatIsCollected: a machine that was away for longer than the hold
// runs what all others have forgotten. It takes that down, and nothing comes back to life.
func TestLateMachineTakesDownWhatIsCollected(t *testing.T) {
	c := newCluster(t, 3)
	c.retention = brief
	for i := range c.cores {
		c.restart(i + 1)
	}
	c.run(3 * time.Second)
	if a := c.write(1, pinned(t, "web", threePods)); a.Err != nil {
		t.Fatal(a.Err)
	}
	c.run(5 * time.Second)
	if c.cores[2].core.Figures()["effects"] == 0 {
		t.Fatal("nothing runs on the last machine")
	}
	c.cutOff(3)
	if a := c.write(1, Edit{Kind: EditDelete, Key: pinnedKey("web")}); a.Err != nil {
		t.Fatal(a.Err)
	}
	c.run(5 * time.Minute) // until the voters let what is on the silent machine go
	c.mend()
	c.run(time.Minute)
	for i, n := range c.cores {
		if content, names := n.counts(); names != 0 || n.core.Figures()["effects"] != 0 || len(n.core.engine.held.byID) != 0 {
			t.Errorf("m%d has %d entries and %d names of pods, %d things made for them, and %v promised", i+1, content, names,
				n.core.Figures()["effects"], n.core.engine.held.byID)
		}
	}
	same(t, c.cores[0], c.cores[1], c.cores[2])
}

// TestStatementsAreTakenTogether: a statement waits for what it presumes, across messages, and
// two that presume each other are taken at once.
func TestStatementsAreTakenTogether(t *testing.T) {
	c := newCluster(t, 3)
	edited(t, c, 3)
	c.run(3 * time.Second)
	k := c.cores[2].core.compaction
	of := func(i int, to uint64, presumes ...crdt.Presumed) crdt.Compacted {
		core := c.cores[i-1].core
		birth, _ := core.journal.log.Birth(core.journal.actor)
		return crdt.SignCompacted(crdt.Compacted{PublicKey: birth.PublicKey, Nonce: birth.Nonce, Seqs: crdt.Seqs{{From: 1, To: to}}, Presumes: presumes}, crdt.Ed25519Signer(c.cores[i-1].key))
	}
	log := func(i int) crdt.ActorID { return c.cores[i-1].core.journal.actor }
	for _, step := range []struct {
		said []crdt.Compacted
		took int
		held int
	}{
		{[]crdt.Compacted{of(1, 2, crdt.Presumed{Actor: log(2), Count: 1})}, 0, 1},
		{[]crdt.Compacted{of(1, 2, crdt.Presumed{Actor: log(2), Count: 1})}, 0, 1},
		{[]crdt.Compacted{of(2, 1)}, 2, 0},
		{[]crdt.Compacted{of(1, 4, crdt.Presumed{Actor: log(2), Count: 3})}, 0, 1},
		{[]crdt.Compacted{of(2, 3, crdt.Presumed{Actor: log(1), Count: 4})}, 2, 0},
		{[]crdt.Compacted{of(2, 3, crdt.Presumed{Actor: log(1), Count: 4})}, 0, 0},
	} {
		if took := k.take(step.said); len(took) != step.took || len(k.held) != step.held {
			t.Errorf("of %+v %d are taken and %d wait, want %d and %d", step.said, len(took), len(k.held), step.took, step.held)
		}
	}
}

// BenchmarkCollection measures what 1,000 pods leave behind that a deployment made and deleted.
func BenchmarkCollection(b *testing.B) {
	for b.Loop() {
		c := newCluster(b, 1)
		c.run(3 * time.Second)
		if a := c.write(1, pinned(b, "web", threePods)); a.Err != nil {
			b.Fatal(a.Err)
		}
		c.run(3 * time.Second)
		measure := func(when string) {
			n := c.cores[0]
			content, _ := n.counts()
			size, _ := n.size()
			pods := 0
			for _, ref := range n.core.journal.state.Refs() {
				if ref.Kind == "Pod" {
					pods += len(n.core.journal.state.Incarnations(ref))
				}
			}
			begin := cpuTime(b)
			for range 9 {
				c.restart(1)
			}
			b.ReportMetric(float64((cpuTime(b)-begin).Microseconds())/9, "CPU-us-to-start-"+when)
			b.ReportMetric(float64(n.core.Checkpoint().Size()), "B-state-"+when)
			b.ReportMetric(float64(size), "B-log-"+when)
			b.ReportMetric(float64(content), "entries-"+when)
			b.ReportMetric(float64(pods), "pods-"+when)
		}
		measure("at-first")
		for range 100 {
			for _, replicas := range []int{13, 3} {
				c.patch(1, api.Fields{"spec.replicas": api.Int(replicas), "spec.surge": api.Int(10)})
				c.run(time.Second)
			}
		}
		measure("before")
		c.retention = brief
		c.restart(1)
		c.run(30 * time.Second)
		measure("after")
	}
}

// cpuTime is what this process took of it, which other work on the machine is not in.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
