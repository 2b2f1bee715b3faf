package peer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// pinned is an apply of a deployment; image tags stand for templates.
func pinned(t testing.TB, name, spec string) Edit {
	t.Helper()
	specs, err := api.ParseYAML("test", fmt.Appendf(nil, "kind: PinnedDeployment\nname: %s\nspec:\n%s", name, spec))
	if err != nil {
		t.Fatal(err)
	}
	return Edit{Kind: EditApply, Key: specs[0].Key, Fields: specs[0].Fields}
}

func pinnedKey(name string) api.Key {
	return api.Key{Kind: "PinnedDeployment", Namespace: "default", Name: name}
}

func (c *cluster) patch(i int, fields api.Fields) Answer {
	return c.write(i, Edit{Kind: EditPatch, Key: pinnedKey("web"), Fields: fields, MustExist: true})
}

// pods lists the deployment's pods as seen from a machine, as "slot:tag", sorted.
func (c *cluster) pods(i int) (list []string) {
	core := c.cores[i-1].core
	for _, s := range core.List("Pod") {
		image := s.Object.Fields.String("spec.containers.app.image")
		list = append(list, fmt.Sprintf("%d:%s", s.Object.Fields.Int(parentSlot), image[strings.LastIndexByte(image, ':')+1:]))
	}
	slices.Sort(list)
	return list
}

func (c *cluster) deployment(i int) Seen {
	c.t.Helper()
	s, ok := c.cores[i-1].core.See(pinnedKey("web"))
	if !ok {
		c.t.Fatal("there is no deployment")
	}
	return s
}

func (c *cluster) wantPods(i int, want ...string) {
	c.t.Helper()
	if got := c.pods(i); !slices.Equal(got, want) {
		c.t.Errorf("m%d sees the pods %v, want %v", i, got, want)
	}
}

func (c *cluster) wantVerdict(i int, want lifecycle.State) {
	c.t.Helper()
	if s := c.deployment(i); s.Eval.Verdict != want {
		for _, step := range s.Eval.Steps {
			c.t.Logf("%s is %s for %q: %s %s", step.Step, step.State, step.For, step.Code, step.Message)
		}
		c.t.Errorf("m%d finds the deployment %s, want %s", i, s.Eval.Verdict, want)
	}
}

const threePods = `
  replicas: 3
  previous: {containers: {app: {image: "localhost/hello:1", resources: {cpu: 100m, memory: 64Mi}}}}
  next: {containers: {app: {image: "localhost/hello:2", resources: {cpu: 100m, memory: 64Mi}}}}
`

func TestDeploymentMakesItsPods(t *testing.T) {
	c := newCluster(t, 3)
	c.run(3 * time.Second)
	if a := c.write(2, pinned(t, "web", threePods+"  percentNext: 34\n")); a.Err != nil {
		t.Fatal(a.Err)
	}
	c.run(5 * time.Second)
	for i := 1; i <= 3; i++ {
		c.wantPods(i, "0:2", "1:1", "2:1")
		c.wantVerdict(i, lifecycle.Converged)
	}
	status := c.deployment(1).Object.Status()
	for path, want := range map[string]string{
		"status.ready": "3", "status.next": "1", "status.slots.0.ready": "true", "status.slots.2.running": "1",
		"status.templates.next.rev": "1",
	} {
		if status[path] != want {
			t.Errorf("%s = %s, want %s", path, status[path], want)
		}
	}
}

// places tells where each pod is, its address and its containers' generation.
func (c *cluster) places() map[string]string {
	places := map[string]string{}
	for _, s := range c.cores[0].core.List("Pod") {
		status := s.Object.Status()
		places[s.Object.Key.Name] = status["status.machine"] + status["status.address"]
	}
	return places
}

func TestRollAndAbortInPlace(t *testing.T) {
	c := newCluster(t, 3)
	c.run(3 * time.Second)
	c.write(1, pinned(t, "web", threePods+"  percentNext: 0\n"))
	c.run(5 * time.Second)
	c.wantPods(1, "0:1", "1:1", "2:1")
	before := c.places()
	for _, step := range []struct {
		percent int
		want    []string
	}{{50, []string{"0:2", "1:2", "2:1"}}, {100, []string{"0:2", "1:2", "2:2"}}, {0, []string{"0:1", "1:1", "2:1"}}} {
		c.patch(2, api.Fields{"spec.percentNext": api.Int(step.percent)})
		c.run(20 * time.Second)
		c.wantPods(3, step.want...)
		c.wantVerdict(3, lifecycle.Converged)
	}
	for name, place := range c.places() {
		if before[name] != place {
			t.Errorf("%s was at %s and is at %s: a roll changes pods in place", name, before[name], place)
		}
	}
}

// A template that never gets ready stops the roll, with everything else serving, and
// the deployment's verdict is that of the pod which holds it up.
func TestBrokenTemplateStopsTheRoll(t *testing.T) {
	c := newCluster(t, 3)
	c.run(3 * time.Second)
	c.write(1, pinned(t, "web", threePods+"  percentNext: 0\n"))
	c.run(5 * time.Second)
	c.patch(1, api.Fields{"spec.percentNext": "100", "spec.next.containers.app.image": api.Str("localhost/missing:1")})
	c.run(20 * time.Second)
	c.wantPods(1, "0:1", "1:1", "2:1", "3:1") // the surge pod's tag is :1 of localhost/missing
	c.wantVerdict(2, lifecycle.Failed)
	if ready := c.deployment(1).Object.Status().Int("status.ready"); ready != 3 {
		t.Errorf("%d pods are ready, want 3", ready)
	}
	c.patch(1, api.Fields{"spec.percentNext": "0"})
	c.run(10 * time.Second)
	c.wantPods(1, "0:1", "1:1", "2:1")
	c.wantVerdict(2, lifecycle.Converged)
}

func TestPeopleDontEditChildren(t *testing.T) {
	c := newCluster(t, 1)
	c.run(3 * time.Second)
	c.write(1, pinned(t, "web", threePods))
	c.run(5 * time.Second)
	child := c.cores[0].core.List("Pod")[0].Object.Key
	for what, edit := range map[string]Edit{
		"edit":   {Kind: EditPatch, Key: child, Fields: api.Fields{"spec.restart": api.Str("never")}},
		"delete": {Kind: EditDelete, Key: child},
	} {
		a := c.write(1, edit)
		if a.Err == nil || a.Err.Code != api.WrongOwner || !strings.Contains(a.Err.Message, "belongs to pinneddeployment/web") {
			t.Errorf("%s: %v, want to be pointed to the deployment", what, a.Err)
		}
	}
	if a := c.write(1, Edit{Kind: EditPatch, Key: child, Fields: api.Fields{"lifecycle.restart": "1"}}); a.Err != nil {
		t.Errorf("restart: %v", a.Err)
	}
	forged := pod(t, "mine", hello)
	forged.Fields[parentObject] = api.Str("pinneddeployment/web")
	if a := c.write(1, forged); a.Err == nil || a.Err.Code != api.WrongOwner {
		t.Errorf("a pod with a forged parent: %v", a.Err)
	}
}

func TestDeleteTakesChildrenFirst(t *testing.T) {
	c := newCluster(t, 3)
	c.run(3 * time.Second)
	c.write(1, pinned(t, "web", threePods))
	c.run(5 * time.Second)
	c.write(3, Edit{Kind: EditDelete, Key: pinnedKey("web")})
	c.run(5 * time.Second)
	for _, n := range c.cores {
		if left := n.core.List(""); len(left) != 3 { // the machines
			t.Errorf("m%d still sees %d objects, the first %v", n.i, len(left), left[0].Object.Key)
		}
		if len(n.host.pods) > 0 {
			t.Errorf("m%d still runs %v", n.i, n.host.pods)
		}
	}
}

// split cuts one machine off; the others find it silent.
func (c *cluster) split(alone int) {
	for i := range c.cores {
		if i+1 != alone {
			c.cut[[2]int{alone, i + 1}], c.cut[[2]int{i + 1, alone}] = true, true
		}
	}
	c.connect()
}

func (c *cluster) heal() {
	clear(c.cut)
	c.connect()
}

// Both sides of a partition act for the deployment. When it heals there is one pod per
// slot, and the last percentage holds.
func TestDeploymentSurvivesPartition(t *testing.T) {
	for alone := 1; alone <= 3; alone++ {
		c := newCluster(t, 3)
		c.run(3 * time.Second)
		c.write(1, pinned(t, "web", threePods+"  percentNext: 0\n"))
		c.run(5 * time.Second)
		c.split(alone)
		c.patch(alone, api.Fields{"spec.replicas": "4"})
		c.patch(alone%3+1, api.Fields{"spec.replicas": "5", "spec.percentNext": "60"})
		c.run(20 * time.Second)
		c.heal()
		c.run(time.Minute)
		for i := 1; i <= 3; i++ {
			c.wantPods(i, "0:2", "1:2", "2:2", "3:1", "4:1")
			c.wantVerdict(i, lifecycle.Converged)
		}
		running := 0
		for _, n := range c.cores {
			running += len(n.host.pods)
		}
		if running != 5 {
			t.Errorf("%d pods run after the partition of m%d, want 5", running, alone)
		}
	}
}

// A deployment that was deleted on one side of a partition while the other side made
// pods for it leaves none of them.
func TestDeletionInPartitionLeavesNoChildren(t *testing.T) {
	for alone := 1; alone <= 3; alone++ {
		c := newCluster(t, 3)
		c.run(3 * time.Second)
		c.write(1, pinned(t, "web", threePods))
		c.run(5 * time.Second)
		c.split(alone)
		c.write(alone, Edit{Kind: EditDelete, Key: pinnedKey("web")})
		c.run(20 * time.Second)
		c.heal()
		c.run(time.Minute)
		for _, n := range c.cores {
			if pods := n.core.List("Pod"); len(pods) > 0 || len(n.host.pods) > 0 {
				t.Errorf("m%d, cut off m%d: %d pods are left, %v run", n.i, alone, len(pods), n.host.pods)
			}
		}
	}
}

// The executor of a roll is killed in the middle of it, and another goes on.
func TestRollSurvivesItsExecutor(t *testing.T) {
	c := newCluster(t, 3)
	c.run(3 * time.Second)
	c.write(1, pinned(t, "web", threePods+"  percentNext: 0\n"))
	c.run(5 * time.Second)
	c.patch(1, api.Fields{"spec.percentNext": "100"})
	executor := c.deployment(1).Object.Results["pods"].Executor
	for _, n := range c.cores {
		if fmt.Sprintf("m%d", n.i) == executor {
			c.boot(n, c.cores[n.i%3].core.trust.Since(0), c.cores[0].core.trust.Genesis())
		}
	}
	c.connect()
	c.run(30 * time.Second)
	c.wantPods(2, "0:2", "1:2", "2:2")
	c.wantVerdict(2, lifecycle.Converged)
}

// A person's pod that has the name which a slot needs is left alone, and named.
func TestNameOfAChildIsTaken(t *testing.T) {
	c := newCluster(t, 1)
	c.run(3 * time.Second)
	c.write(1, pinned(t, "web", threePods+"  surge: 1\n"))
	id := c.deployment(1).Object.ID[:6]
	c.patch(1, api.Fields{"spec.replicas": "0"})
	c.run(5 * time.Second)
	c.write(1, pod(t, "web-"+id+"-0", hello))
	c.patch(1, api.Fields{"spec.replicas": "1"})
	c.run(5 * time.Second)
	c.wantVerdict(1, lifecycle.Blocked)
	seen := c.deployment(1)
	chain := seen.Graph.Explain(&seen.Eval)
	if last := chain[len(chain)-1]; !strings.Contains(last.Message, "was made by user:alice") {
		t.Errorf("the cause is %q", last.Message)
	}
}
