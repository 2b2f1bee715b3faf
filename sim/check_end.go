package sim

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/peer"
)

// settle waits until the cluster is at rest and everything runs where it should, and
// looks then whether all that was promised is true. It returns how long that took.
func (c *checker) settle() time.Duration {
	const longest, step = 5 * time.Minute, time.Second
	begin := c.w.now
	invariant, why := 10, ""
	for c.w.violation == nil && c.w.now-begin < longest {
		c.w.runFor(step)
		now, reason := c.open()
		if reason == "" {
			c.final()
			return c.w.now - begin
		}
		// What is tried again now and then is at rest in between: what is wrong then is
		// what is wrong.
		if now != 10 || invariant == 10 {
			invariant, why = now, reason
		}
	}
	c.w.fail(invariant, "%v after the last fault: %s", longest, why)
	return c.w.now - begin
}

// open says which promise is not kept yet.
func (c *checker) open() (invariant int, why string) {
	if why := c.unrest(); why != "" {
		return 10, why
	}
	if why := c.misplaced(); why != "" {
		return 7, why
	}
	if why := c.leftOutside(); why != "" {
		return 8, why
	}
	return 8, c.addresses()
}

// unrest says what keeps the cluster from being at rest.
func (c *checker) unrest() string {
	up := c.w.running()
	if len(up) < len(c.w.members()) {
		return "a peer is down"
	}
	if c.w.chores > 0 {
		return "somebody still has to look who was removed"
	}
	for _, m := range up {
		if d := m.core.Digest(); d != up[0].core.Digest() {
			return fmt.Sprintf("%s and %s hold different entries", m.name, up[0].name)
		}
		if m.disk.pending != nil {
			return m.name + " has not synced yet"
		}
		if _, ok := m.core.See(machineKey(m.core.Self().Name)); !ok {
			return m.name + " has no object yet"
		}
	}
	for _, m := range up {
		for _, o := range m.core.List("") {
			if why := c.unsettled(m, o); why != "" {
				return why
			}
		}
	}
	return ""
}

// unsettled is invariant 10 for one object: converged, or blocked or failed with a reason.
func (c *checker) unsettled(m *machine, o peer.Seen) string {
	if crashes(o.Object) || o.Eval.Verdict == lifecycle.Converged {
		return ""
	}
	if o.Eval.Silent != "" && len(c.w.broken) > 0 && o.Eval.Verdict == lifecycle.Blocked {
		return ""
	}
	if _, member := m.core.IDOf(o.Object.Key.Name); o.Object.Key.Kind == "Machine" && !member {
		return "" // what is left of a machine that was removed
	}
	for _, s := range o.Eval.Steps {
		stuck := (s.State == lifecycle.StateBlocked || s.State == lifecycle.StateRetrying) && s.Message != ""
		silent := s.Code == lifecycle.CodeSilent && len(c.w.broken) > 0
		if key, err := api.KeyFromString(s.For); err == nil && (s.State == lifecycle.StateUndoing || s.State == lifecycle.StateBlocked) {
			_, stuck = m.core.See(key) // a child is in the way, and is looked at itself
		} else if err == nil && key.Kind == "Pod" && o.Object.Key.Kind == "Machine" {
			_, stuck = m.core.See(key) // so is a pod that keeps its machine from being drained
		}
		if (stuck || silent) && o.Eval.Verdict != lifecycle.Progressing {
			return ""
		}
	}
	return fmt.Sprintf("%s sees %s %s: %s", m.name, o.Object.Key, o.Eval.Verdict, steps(o.Eval))
}

func crashes(o *lifecycle.Object) bool {
	return o.Fields.String("spec.containers.app.image") == imageCrash
}

func steps(e lifecycle.Evaluation) (text string) {
	for _, s := range e.Steps {
		if s.State != lifecycle.StateDone && s.State != lifecycle.StateIdle {
			text += fmt.Sprintf(" %s %s for=%q machine=%q %s;", s.Step, s.State, s.For, s.Machine, s.Message)
		}
	}
	return text
}

// final checks everything once the cluster is at rest.
func (c *checker) final() {
	members := c.w.members()
	for _, m := range members {
		c.equal(m, m.core.StateHash())
		c.figures(m)
	}
	one := pick(c.w.random.check, members) // all hold the same entries by now, and give the same state
	c.refold(one, one.core.StateHash())
	c.running()
	c.kept()
	c.churn()
}

// kept is invariant 2 at the end: every acknowledged change is everywhere.
func (c *checker) kept() {
	for _, k := range c.acks {
		if len(k.holders) == 0 {
			c.w.sometimes("an acknowledged change is lost with all its disks")
			continue
		}
		if !slices.ContainsFunc(k.holders, func(m *machine) bool { return !c.w.broken[m] }) {
			continue // it comes with those that are mended later
		}
		for _, m := range c.w.members() {
			if h, ok := m.disk.Hash(k.actor, k.seq); !ok || h != c.entries[k.actor][k.seq-1] {
				c.w.fail(2, "the acknowledged change %v of %s is not on the disk of %s", k.change, k.key, m.name)
			}
			c.wrote(m, k)
		}
	}
}

// misplaced is invariant 7: a pod that is to run does so exactly once, and nothing runs
// that should not.
func (c *checker) misplaced() string {
	where := map[string][]string{}
	for _, m := range c.w.members() {
		for _, id := range sortedIDs(m.host.pods) {
			where[id] = append(where[id], m.name)
		}
	}
	for _, o := range c.w.members()[0].core.List("Pod") {
		at := where[o.Object.ID]
		delete(where, o.Object.ID)
		if why := wrongPlace(o, at); why != "" {
			return why
		}
	}
	for _, id := range sortedIDs(where) {
		return fmt.Sprintf("%v runs pod %s, which no object wants", where[id], id)
	}
	return ""
}

// wrongPlace says what is wrong with where a pod runs.
func wrongPlace(o peer.Seen, at []string) string {
	wanted, home := o.Graph.Takes(o.Eval.Goal, api.TargetRunning), o.Object.Status().String("status.machine")
	switch {
	case len(at) > 1:
		return fmt.Sprintf("%s runs on %v", o.Object.Key, at)
	case crashes(o.Object) || o.Eval.Verdict != lifecycle.Converged:
	case wanted && len(at) == 0:
		return fmt.Sprintf("%s is converged and runs nowhere", o.Object.Key)
	case wanted && at[0] != home:
		return fmt.Sprintf("%s runs on %s, and its status says %s", o.Object.Key, at[0], home)
	case !wanted && len(at) > 0:
		return fmt.Sprintf("%s is stopped and runs on %v", o.Object.Key, at)
	}
	return ""
}

// addresses is invariant 8: no address is used by two pods, and a pod that is where it
// should be has left nothing elsewhere.
func (c *checker) addresses() string {
	users, home := map[netip.Addr]string{}, map[string]string{}
	for _, o := range c.w.members()[0].core.List("Pod") {
		if o.Eval.Verdict == lifecycle.Converged {
			home[o.Object.ID] = o.Object.Status().String("status.machine")
		}
	}
	for _, m := range c.w.members() {
		for _, id := range sortedIDs(m.host.nets) {
			a := m.host.nets[id].Address
			if old, taken := users[a]; taken && old != id {
				return fmt.Sprintf("%v is used by the pods %s and %s", a, id, old)
			}
			users[a] = id
			if at, converged := home[id]; converged && at != m.name {
				return fmt.Sprintf("pod %s is converged on %s, and %s keeps a network namespace for it", id, at, m.name)
			}
		}
	}
	return ""
}

// running counts what the storm left standing.
func (c *checker) running() {
	for _, m := range c.w.members() {
		for range m.host.pods {
			c.w.sometimes("a pod runs at the end")
		}
	}
}

// figures is invariant 11 for what a core holds at rest. Pods that crash again and again
// are never quite at rest.
func (c *checker) figures(m *machine) {
	f := m.core.Figures()
	objects := f["objects"]
	for name, limit := range map[string]int64{"actions": podNames, "pending_writes": 0, "unreadable": 0, "waiting_wakes": 100 + 100*objects, "effects": objects} {
		if f[name] > limit {
			c.w.fail(11, "%s holds %d %s at rest, with %d objects", m.name, f[name], name, objects)
		}
	}
}

// churn is invariant 11 for the log: where all is at rest, nothing is written.
func (c *checker) churn() {
	if len(c.w.broken) > 0 {
		return // whom nobody hears is asked for again and again
	}
	if slices.ContainsFunc(c.w.members(), func(m *machine) bool { return len(m.host.leases) > 0 }) {
		c.w.runFor(peer.LeaseLength) // one that a fault kept from being renewed may still end
	}
	for _, o := range c.w.members()[0].core.List("") {
		if o.Eval.Verdict != lifecycle.Converged || crashes(o.Object) {
			return // it is tried again now and then, and others may have to follow
		}
	}
	before := c.total
	c.w.sometimes("everything is at rest")
	c.w.runFor(20 * time.Second)
	if c.total > before {
		c.w.fail(11, "everything was at rest, and %d entries were written", c.total-before)
	}
}
