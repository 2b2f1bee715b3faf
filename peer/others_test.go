package peer

import (
	"fmt"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
)

// depending is a pod that requires one object and is bound to another; "" for none.
func depending(t *testing.T, name, image, require, bind string) Edit {
	t.Helper()
	spec := "  containers: {app: {image: '" + image + "'}}\n"
	if require != "" {
		spec += "  objects: {require: [" + require + "]}\n"
	}
	if bind != "" {
		spec += "  objects: {bind: [" + bind + "]}\n"
	}
	return pod(t, name, spec)
}

// stands is what every machine says of a pod: its goal, its verdict, and what it waits for.
func (c *cluster) stands(name string) string {
	c.t.Helper()
	said := ""
	for n := range c.cores {
		seen, ok := c.cores[n].core.See(podKey(name))
		if !ok {
			return "gone"
		}
		now := seen.Eval.Goal + " " + string(seen.Eval.Verdict)
		if st, _ := seen.Eval.Step("objects"); st.State == lifecycle.StateBlocked {
			now += ": " + st.Message
		}
		if said == "" {
			said = now
		} else if now != said {
			c.t.Errorf("%s: m1 says %q, m%d %q", name, said, n+1, now)
		}
	}
	return said
}

func (c *cluster) wantStands(what, name, want string) {
	c.t.Helper()
	c.run(15 * time.Second)
	if got := c.stands(name); got != want {
		c.t.Errorf("%s: %s is %q, want %q", what, name, got, want)
	}
}

func (c *cluster) starts() (n int) {
	for _, node := range c.cores {
		n += node.host.starts
	}
	return n
}

// Containers wait for what their pod requires, which is named; what runs is left alone when
// that goes down.
func TestRequiredObject(t *testing.T) {
	c := newCluster(t, 3)
	c.run(3 * time.Second)
	c.write(1, pod(t, "dc", "  containers: {app: {image: 'localhost/a:1'}}\n"))
	c.write(1, depending(t, "web", "localhost/a:1", "pod/db", ""))
	c.wantStands("before it is there", "web", "ready blocked: it requires pod/db, which does not exist; the nearest that exists is pod/dc")
	if c.starts() != 1 {
		t.Errorf("%d containers started; only that of dc should", c.starts())
	}
	c.write(2, depending(t, "db", "localhost/missing:1", "", ""))
	c.wantStands("while it fails", "web", "ready blocked: it requires pod/db, which is failed")
	c.write(2, depending(t, "db", "localhost/a:1", "", ""))
	c.wantStands("when it is up", "web", "ready converged")
	starts := c.starts()
	c.write(3, Edit{Kind: EditDelete, Key: podKey("db")})
	c.wantStands("when it is gone again", "web", "ready converged")
	if c.starts() != starts {
		t.Error("what runs was touched")
	}
	c.write(3, switchTo("web", api.TargetStopped, ""))
	c.write(3, switchTo("web", api.TargetReady, ""))
	c.wantStands("when it starts anew", "web", "ready blocked: it requires pod/db, which does not exist; the nearest that exists is pod/dc")
}

// A bound pod starts and stops with the other one, also when a chain of them is bound.
func TestBoundObjectsStartAndStopTogether(t *testing.T) {
	c := newCluster(t, 3)
	c.run(3 * time.Second)
	c.write(1, depending(t, "tail", "localhost/a:1", "", "pod/side"), depending(t, "side", "localhost/a:1", "", "pod/main"))
	c.wantStands("without it", "side", "stopped converged")
	c.wantStands("without it", "tail", "stopped converged")
	if other, how := c.cores[0].core.BoundDown(podKey("side")); other != "pod/main" || how != "does not exist" {
		t.Errorf("side is held down by %q, which %s", other, how)
	}
	c.write(2, depending(t, "main", "localhost/missing:1", "", ""))
	c.wantStands("while it comes up", "side", "ready blocked: it requires pod/main, which is failed")
	c.write(2, depending(t, "main", "localhost/a:1", "", ""))
	for _, name := range []string{"main", "side", "tail"} {
		c.wantStands("with it", name, "ready converged")
	}
	if c.starts() != 3 {
		t.Errorf("%d containers started, want 3", c.starts())
	}
	c.write(3, switchTo("main", api.TargetStopped, ""))
	for _, name := range []string{"main", "side", "tail"} {
		c.wantStands("when it stops", name, "stopped converged")
	}
	c.write(1, switchTo("main", api.TargetReady, ""))
	for _, name := range []string{"main", "side", "tail"} {
		c.wantStands("when it starts again", name, "ready converged")
	}
	c.write(1, Edit{Kind: EditDelete, Key: podKey("main")})
	c.wantStands("when it is deleted", "tail", "stopped converged")
}

// Objects that require each other in a circle are told so, and nothing hangs.
func TestRequirementCircle(t *testing.T) {
	c := newCluster(t, 3)
	c.run(3 * time.Second)
	c.write(1, depending(t, "a", "localhost/a:1", "pod/b", ""), depending(t, "b", "localhost/a:1", "pod/c", ""), depending(t, "c", "localhost/a:1", "", "pod/a"))
	const why = ": each waits for the next, so that none of them starts"
	c.wantStands("in a circle", "a", "ready blocked: pod/a requires pod/b requires pod/c requires pod/a"+why)
	c.wantStands("in a circle", "c", "ready blocked: pod/c requires pod/a requires pod/b requires pod/c"+why)
	c.write(2, depending(t, "b", "localhost/a:1", "", ""))
	for _, name := range []string{"b", "a", "c"} {
		c.wantStands("mended", name, "ready converged")
	}
}

// Whoever waits for an object is told at once when its name has another life, whichever of the
// two is looked at first.
func TestRequiredObjectBeginsAnotherLife(t *testing.T) {
	c := newCluster(t, 3)
	c.run(3 * time.Second)
	var create, remove []Edit
	want := map[string]string{}
	for n := range 8 {
		one, two := fmt.Sprintf("a%d", n), fmt.Sprintf("b%d", n)
		create = append(create, depending(t, one, "localhost/a:1", "pod/"+two, ""), depending(t, two, "localhost/a:1", "pod/"+one, ""))
		for name, other := range map[string]string{one: two, two: one} {
			remove = append(remove, Edit{Kind: EditDelete, Key: podKey(name)})
			want[name] = fmt.Sprintf("ready blocked: pod/%s requires pod/%s requires pod/%s: each waits for the next, so that none of them starts", name, other, name)
		}
	}
	for life := range 6 {
		late := 1 + life%3
		c.split(late) // it hears of all that happens meanwhile at once
		c.write(1+late%3, create...)
		c.run(2 * time.Second)
		c.heal()
		c.run(15 * time.Second)
		for name, stands := range want {
			if got := c.stands(name); got != stands {
				t.Errorf("life %d: %s is %q", life, name, got)
			}
		}
		c.write(1, remove...)
		c.run(10 * time.Second)
	}
}

// What was known of an object says nothing once it has changed, also before it was looked at.
func TestStandingOfWhatHasChanged(t *testing.T) {
	c := newCluster(t, 3)
	c.run(3 * time.Second)
	c.write(1, depending(t, "db", "localhost/a:1", "", ""))
	c.run(5 * time.Second)
	for _, n := range c.cores {
		e := n.core.engine
		db := e.objects[crdt.Ref(podKey("db"))]
		e.verdictOf(db)
		db.verdict = lifecycle.Progressing // as it was before the change
		e.mark(db.ref)
		if s := (&view{c: n.core}).Standing("pod/db"); !s.Up {
			t.Errorf("m%d goes by what it knew before: %+v", n.i, s)
		}
	}
}
