package peer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

const podsKind = `
kind: Kind
name: database
spec:
  doc: A database in pods.
  fields:
    spec.count: {type: integer, default: 1, doc: How many pods.}
    spec.version: {type: string, default: "1", doc: Of the image.}
    status.loops.db.ready: {type: integer, doc: How many pods are ready.}
  steps:
    pods: {loop: db, reads: [spec], outputs: [status.loops.db.ready], children: Pod, undo: true}
`

// podsOf is a loop that makes as many pods as the spec says, and waits until all serve.
func podsOf(c loops.ForeignCall) (lifecycle.Outputs, error) {
	if c.Undo {
		return nil, nil
	}
	in, owns, serving := c.Inputs.Fields, &lifecycle.Owns{}, 0
	n := int(in.Int("spec.count"))
	for i := range n {
		spec := api.Fields{"spec.containers.app.image": api.Str("localhost/db:" + in.String("spec.version"))}
		owns.Children = append(owns.Children, lifecycle.Child{Slot: i, Fields: spec})
		if in.String(fmt.Sprintf("children.db.%d.state", i)) == "serving" {
			serving++
		}
	}
	if serving < n {
		owns.Err = &lifecycle.Pending{Message: fmt.Sprintf("%d of %d pods serve", serving, n)}
	}
	return lifecycle.Outputs{"status.loops.db.ready": api.Int(serving)}, owns
}

// A foreign loop's children are its own: made, changed and deleted as it says, known by
// their parent, taken down before it.
func TestForeignChildren(t *testing.T) {
	c := newCluster(t, 3)
	h := c.attach("db")
	h.do = podsOf
	c.run(3 * time.Second)
	c.mustApply(1, podsKind+"---\nkind: Database\nname: main\nspec: {count: 2}\n")
	c.run(3 * time.Second)
	core := c.cores[1].core
	seen, _ := core.See(mainKey)
	if seen.Eval.Verdict != lifecycle.Converged || seen.Object.Status().Int("status.loops.db.ready") != 2 {
		t.Fatalf("the parent is %s: %v\n%v", seen.Eval.Verdict, seen.Object.Status(), seen.Graph.Explain(&seen.Eval))
	}
	pods := core.List("Pod")
	name := loops.ForeignChild("Pod", mainKey, seen.Object.ID, "db", 1)
	if len(pods) != 2 || pods[1].Object.Key != name || pods[1].Object.Fields.String("spec.parent.object") != "database/main" || pods[1].Folded.Creator() != "loop:db" {
		t.Fatalf("%d pods; the last is %v by %s", len(pods), pods[len(pods)-1].Object, pods[len(pods)-1].Folded.Creator())
	}
	a := c.write(1, Edit{Kind: EditPatch, Key: name, Fields: api.Fields{"spec.containers.app.image": `"localhost/x:1"`}})
	if a.Err == nil || !strings.Contains(a.Err.Error(), name.String()+" belongs to database/main, which owns its spec") {
		t.Errorf("a person's edit of a child: %v", a.Err)
	}
	machine := pods[1].Object.Status().String("status.machine")
	c.mustApply(3, "kind: Database\nname: main\nspec: {count: 2, version: \"2\"}\n")
	c.run(3 * time.Second)
	child, _ := core.See(name)
	if got := child.Object.Fields.String("spec.containers.app.image"); got != "localhost/db:2" || child.Object.Status().String("status.machine") != machine {
		t.Errorf("after an edit of its parent the child runs %s on %s", got, child.Object.Status().String("status.machine"))
	}
	c.mustApply(1, "kind: Database\nname: main\nspec: {count: 1}\n")
	c.run(3 * time.Second)
	if n := len(core.List("Pod")); n != 1 {
		t.Errorf("%d pods, want 1", n)
	}
	if a := c.write(1, Edit{Kind: EditDelete, Key: mainKey}); a.Err != nil {
		t.Fatal(a.Err)
	}
	c.run(5 * time.Second)
	if _, there := core.See(mainKey); there || len(core.List("Pod")) != 0 {
		t.Errorf("after the deletion: there %v, %d pods", there, len(core.List("Pod")))
	}
	if last := h.calls[len(h.calls)-1]; !strings.HasPrefix(last, "undo pods main") {
		t.Errorf("the last call was %s", last)
	}
}

// A parent whose child can't run says so, and why goes on in the child.
func TestForeignChildInTrouble(t *testing.T) {
	c := newCluster(t, 1)
	h := c.attach("db")
	h.do = func(c loops.ForeignCall) (lifecycle.Outputs, error) {
		owns := &lifecycle.Owns{Err: &lifecycle.Pending{Message: "0 of 1 pods serve"}}
		owns.Children = []lifecycle.Child{{Slot: 0, Fields: api.Fields{"spec.containers.app.image": `"localhost/missing:1"`}}}
		return nil, owns
	}
	c.run(3 * time.Second)
	c.mustApply(1, podsKind+"---\nkind: Database\nname: main\nspec: {}\n")
	c.run(2 * time.Second)
	seen, _ := c.cores[0].core.See(mainKey)
	chain := seen.Graph.Explain(&seen.Eval)
	last := chain[len(chain)-1]
	if seen.Eval.Verdict != lifecycle.Failed || last.Step != "db:pods" || !strings.HasPrefix(last.For, "pod/main-") {
		t.Errorf("%s: %s waits for %q", seen.Eval.Verdict, last.Step, last.For)
	}
}

// A child that is not valid fails the step with what is wrong, and nothing is made.
func TestForeignChildInvalid(t *testing.T) {
	c := newCluster(t, 1)
	h := c.attach("db")
	h.do = func(c loops.ForeignCall) (lifecycle.Outputs, error) {
		return nil, &lifecycle.Owns{Children: []lifecycle.Child{{Slot: 0, Fields: api.Fields{"spec.containers.app.imag": `"x"`}}}}
	}
	c.run(3 * time.Second)
	c.mustApply(1, podsKind+"---\nkind: Database\nname: main\nspec: {}\n")
	c.run(2 * time.Second)
	seen, _ := c.cores[0].core.See(mainKey)
	chain := seen.Graph.Explain(&seen.Eval)
	if last := chain[len(chain)-1]; !strings.Contains(last.Message, "loop db asks for child 0, which is not valid: spec.containers.app.imag: there is no such field") {
		t.Errorf("%s", last.Message)
	}
	if n := len(c.cores[0].core.List("Pod")); n != 0 {
		t.Errorf("%d pods were made", n)
	}
}

// A Step puts a proxy beside every pod of a namespace without any spec being touched, and
// takes all of them away when it is deleted.
func TestProxyBesideEveryPod(t *testing.T) {
	c := newCluster(t, 2)
	h := c.attach("proxy")
	h.do = func(c loops.ForeignCall) (lifecycle.Outputs, error) {
		owns := &lifecycle.Owns{}
		if c.Inputs.Key.Namespace == "shop" && !c.Undo {
			owns.Children = []lifecycle.Child{{Slot: 0, Fields: api.Fields{"spec.containers.proxy.image": `"localhost/proxy:1"`}}}
		}
		return nil, owns
	}
	c.run(3 * time.Second)
	c.mustApply(1, "kind: Step\nname: proxy\nspec: {kind: Pod, loop: proxy, step: beside, requires: [schedule], requiredBy: [ready], children: Pod, existing: now}\n")
	web := "kind: Pod\nname: web\nspec: {containers: {app: {image: \"localhost/hello:1\"}}}\n"
	c.mustApply(1, web+"---\n"+strings.Replace(web, "name: web", "name: web\nnamespace: shop", 1))
	c.run(3 * time.Second)
	core := c.cores[0].core
	var names []string
	for _, s := range core.List("Pod") {
		names = append(names, s.Object.Key.String())
		if s.Eval.Verdict != lifecycle.Converged {
			t.Errorf("%s is %s", s.Object.Key, s.Eval.Verdict)
		}
	}
	shop, _ := core.See(api.Key{Kind: "Pod", Namespace: "shop", Name: "web"})
	want := []string{"pod/web", "pod/shop/web", loops.ForeignChild("Pod", shop.Object.Key, shop.Object.ID, "proxy", 0).String()}
	if fmt.Sprint(names) != fmt.Sprint(want) {
		t.Fatalf("the pods are %v, want %v", names, want)
	}
	c.write(2, Edit{Kind: EditDelete, Key: api.Key{Kind: "Step", Name: "proxy"}})
	c.run(3 * time.Second)
	if n := len(core.List("Pod")); n != 2 {
		t.Errorf("%d pods after the Step was deleted, want 2", n)
	}
}

// A Step that is deleted takes back what its loop made for the objects that are there.
func TestDeletedStepIsTakenBack(t *testing.T) {
	c := newCluster(t, 2)
	h := c.attach("audit")
	h.give = lifecycle.Outputs{"status.loops.audit.passed": "true"}
	c.run(3 * time.Second)
	c.write(1, step(t, "audit", auditStep+"  undo: true\n"))
	c.write(1, pod(t, "web", hello))
	c.run(2 * time.Second)
	h.calls = nil
	plans, fault := c.cores[0].core.Plan("user:alice", []Edit{{Kind: EditDelete, Key: api.Key{Kind: "Step", Name: "audit"}}})
	if fault != nil || fmt.Sprint(plans[0].Concerns) != "[audit:check is taken back for 1 of 1 pods]" {
		t.Errorf("%v %v", fault, plans)
	}
	c.write(2, Edit{Kind: EditDelete, Key: api.Key{Kind: "Step", Name: "audit"}})
	c.run(2 * time.Second)
	if got := fmt.Sprint(h.calls); got != "[undo check web 1]" {
		t.Errorf("called %s", got)
	}
	seen, _ := c.cores[0].core.See(podKey("web"))
	if seen.Eval.Verdict != lifecycle.Converged || seen.Object.Status().Has("status.loops.audit.passed") {
		t.Errorf("the pod is %s with %v", seen.Eval.Verdict, seen.Object.Status())
	}
}

// What a step consults wakes it while it waits.
func TestForeignConsults(t *testing.T) {
	c := newCluster(t, 1)
	h := c.attach("db")
	quota := false
	h.do = func(loops.ForeignCall) (lifecycle.Outputs, error) {
		if !quota {
			return nil, &lifecycle.Error{Code: "NoQuota", Wait: true, Message: "there is no quota"}
		}
		return nil, nil
	}
	c.run(3 * time.Second)
	consulting := strings.Replace(podsKind, "children: Pod, undo: true", "consults: [Service]", 1)
	c.mustApply(1, consulting+"---\nkind: Database\nname: main\nspec: {}\n")
	quota = true
	c.run(10 * time.Second)
	if seen, _ := c.cores[0].core.See(mainKey); seen.Eval.Verdict != lifecycle.Blocked {
		t.Fatalf("before anything happens it is %s", seen.Eval.Verdict)
	}
	c.mustApply(1, "kind: Service\nname: quota\nspec: {select: {app: x}, ports: {http: {port: 80}}}\n")
	if seen, _ := c.cores[0].core.See(mainKey); seen.Eval.Verdict != lifecycle.Converged {
		t.Errorf("after a Service came it is %s", seen.Eval.Verdict)
	}
	if a := c.apply(1, strings.Replace(consulting, "[Service]", "[Servce]", 1)); a.Err == nil || !strings.Contains(a.Err.Error(), "did you mean Service?") {
		t.Errorf("consulting an unknown kind: %v", a.Err)
	}
}

// A parent that is deleted waits for a child on a machine that is silent: it is blocked, as
// the child is, and says for which.
func TestForeignChildThatCantBeTakenDown(t *testing.T) {
	c := newCluster(t, 3)
	h := c.attach("db")
	h.do = func(call loops.ForeignCall) (lifecycle.Outputs, error) {
		if call.Undo {
			return nil, nil
		}
		return nil, &lifecycle.Owns{Children: []lifecycle.Child{{Slot: 0, Fields: api.Fields{"spec.containers.app.image": `"localhost/a:1"`}}}}
	}
	c.run(3 * time.Second)
	c.mustApply(1, podsKind+"---\nkind: Database\nname: main\nspec: {}\n")
	c.run(3 * time.Second)
	pods := c.cores[0].core.List("Pod")
	if len(pods) != 1 {
		t.Fatalf("%d pods", len(pods))
	}
	home := pods[0].Object.Status().String("status.machine")
	var here *node
	for _, a := range c.cores {
		for _, b := range c.cores {
			c.cut[[2]int{a.i, b.i}] = (a.core.self.Name == home) != (b.core.self.Name == home)
		}
		if a.core.self.Name != home {
			here = a
		}
	}
	c.connect()
	c.run(2 * time.Second)
	if a := c.write(here.i, Edit{Kind: EditDelete, Key: mainKey}); a.Err != nil {
		t.Fatal(a.Err)
	}
	c.run(20 * time.Second)
	seen, _ := here.core.See(mainKey)
	chain := seen.Graph.Explain(&seen.Eval)
	if last := chain[len(chain)-1]; seen.Eval.Verdict != lifecycle.Blocked || last.For != pods[0].Object.Key.String() {
		t.Errorf("the parent is %s, and waits for %q; want it blocked by %s", seen.Eval.Verdict, last.For, pods[0].Object.Key)
	}
	clear(c.cut)
	c.connect()
	c.run(10 * time.Second)
	if _, there := here.core.See(mainKey); there {
		t.Error("once the machine is back the parent is not gone")
	}
}
