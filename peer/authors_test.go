package peer

import (
	"fmt"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

// writeAs is write by another author.
func (c *cluster) writeAs(author string, edits ...Edit) {
	c.t.Helper()
	n := c.cores[0]
	n.answer = nil
	n.core.Step(c.now, Write{Request: 1, Author: author, Edits: edits})
	c.run(4 * time.Second)
	if len(n.answer) != 1 || n.answer[0].Err != nil {
		c.t.Fatalf("%s: %v", author, n.answer)
	}
}

// A Step says whose edits call it. It sees the spec as those left it; what others edit calls
// it only once one of its authors edits the object again.
func TestStepOfAuthors(t *testing.T) {
	c := newCluster(t, 2)
	h := c.attach("audit")
	var seen []string
	h.do = func(call loops.ForeignCall) (lifecycle.Outputs, error) {
		seen = append(seen, call.Inputs.Key.Name+" "+api.Fields(call.Inputs.Fields).String("spec.containers.app.image"))
		return nil, nil
	}
	c.run(3 * time.Second)
	c.writeAs("user:alice", step(t, "audit", auditStep+"  by: ['user:*']\n  notBy: ['user:bob']\n  existing: now\n"))
	web := func(image, more string) Edit {
		return pod(t, "web", "  containers: {app: {image: '"+image+"'"+more+"}}\n")
	}
	wants := func(what string, want ...string) {
		t.Helper()
		if fmt.Sprint(seen) != fmt.Sprint(want) {
			t.Errorf("%s: the loop was called for %v, want %v", what, seen, want)
		}
		if s, _ := c.cores[1].core.See(podKey("web")); s.Eval.Verdict != lifecycle.Converged {
			t.Errorf("%s: the pod is %s", what, s.Eval.Verdict)
		}
	}
	actions := func(author string, edit Edit) string {
		t.Helper()
		plans, fault := c.cores[0].core.Plan(author, []Edit{edit})
		if fault != nil {
			t.Fatal(fault)
		}
		for _, s := range plans[0].Steps {
			if s.Step == "audit:check" {
				return s.Action
			}
		}
		return "passed over"
	}
	c.writeAs("user:bob", web("localhost/a:1", ""))
	wants("what bob made")
	if got := actions("user:bob", web("localhost/b:1", "")) + ", " + actions("user:alice", web("localhost/b:1", "")); got != "passed over, run" {
		t.Errorf("the plans say %s", got)
	}
	c.writeAs("user:alice", web("localhost/b:1", ""))
	wants("alice's edit", "web localhost/b:1")
	if got := actions("user:bob", web("localhost/c:1", "")) + ", " + actions("user:alice", web("localhost/c:1", "")); got != "stay, rerun" {
		t.Errorf("the plans say %s", got)
	}
	c.writeAs("user:bob", web("localhost/c:1", ""))
	wants("bob's edit", "web localhost/b:1")
	if got := c.specOf(2, "web").String("spec.containers.app.image"); got != "localhost/c:1" {
		t.Errorf("after bob's edit the image is %s", got)
	}
	c.writeAs("user:alice", web("localhost/c:1", ", args: [x]"))
	wants("alice's next edit", "web localhost/b:1", "web localhost/c:1")
}

func (c *cluster) specOf(i int, name string) api.Fields {
	s, _ := c.cores[i-1].core.See(podKey(name))
	return s.Object.Fields
}

// What loops make is told apart from what people make.
func TestStepOfPeopleAlone(t *testing.T) {
	c := newCluster(t, 1)
	h := c.attach("audit")
	c.run(3 * time.Second)
	c.writeAs("user:alice", step(t, "audit", auditStep+"  notBy: ['loop:*']\n"))
	specs, err := api.ParseYAML("test", []byte("kind: PinnedDeployment\nname: shop\nspec: {replicas: 2, next: {containers: {app: {image: 'localhost/a:1'}}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	c.writeAs("user:alice", Edit{Kind: EditApply, Key: specs[0].Key, Fields: specs[0].Fields})
	c.writeAs("user:alice", pod(t, "web", hello))
	if fmt.Sprint(h.calls) != "[check web 1]" {
		t.Errorf("the loop was called %v; want it called for the pod that a person made, alone", h.calls)
	}
	pods := 0
	for _, s := range c.cores[0].core.List("Pod") {
		if s.Eval.Verdict == lifecycle.Converged {
			pods++
		}
	}
	if pods != 3 {
		t.Errorf("%d pods are converged, want 3", pods)
	}
}

// A Step declares the entry budget of its loop; of several the greatest counts, and who
// looks for churn is shown it.
func TestEntryBudgetOfAStep(t *testing.T) {
	c := newCluster(t, 1)
	h := c.attach("audit")
	c.run(3 * time.Second)
	c.write(1, step(t, "audit", auditStep+"  entries: 4\n  every: 1s\n"))
	n := 0
	h.do = func(loops.ForeignCall) (lifecycle.Outputs, error) {
		n++
		return lifecycle.Outputs{"status.loops.audit.count": fmt.Sprint(n)}, nil
	}
	c.write(1, pod(t, "web", hello))
	begin := c.now
	c.run(time.Minute)
	churn, _ := c.cores[0].core.Churn(time.Time{})
	for _, l := range churn {
		if l.Loop == "audit" {
			if most := 4 + int(c.now.Sub(begin.Add(-5*time.Second))/lifecycle.EntryEvery); l.Budget != 4 || l.Entries > most || l.Entries < most/2 {
				t.Errorf("audit wrote %d entries with a budget of %d; want about %d with 4", l.Entries, l.Budget, most)
			}
		} else if l.Budget != lifecycle.DefaultEntries {
			t.Errorf("loop %s has a budget of %d", l.Loop, l.Budget)
		}
	}
	if a := c.write(1, step(t, "other", "  kind: Pod\n  loop: audit\n  step: again\n  requires: [network]\n  entries: 9\n")); a.Err != nil {
		t.Fatal(a.Err)
	}
	if got := c.cores[0].core.engine.budget("Pod", "audit"); got != 9 {
		t.Errorf("with two Steps the budget is %d, want the greater one", got)
	}
}
