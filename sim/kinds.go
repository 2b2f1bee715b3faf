package sim

import (
	"context"
	"fmt"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
	"starling.dev/starling/peer"
)

// kindsEvery is how often people act on kinds of their own in a world that has them, and
// programsEvery how often a program of theirs comes or goes.
const (
	kindsEvery    = 700 * time.Millisecond
	programsEvery = 4 * time.Second
)

// databases are few, so that people meet at the same objects.
const databases = 4

func databaseKey(i int) api.Key {
	return api.Key{Kind: "Database", Namespace: "default", Name: fmt.Sprintf("x%d", i)}
}

// beginKinds has people define a kind, steps and targets, and use them.
func (w *World) beginKinds() {
	w.outside = map[string]bool{}
	w.every(kindsEvery, w.random.kinds, w.people.useKinds)
	w.every(programsEvery, w.random.kinds, w.comeAndGo)
}

// useKinds is one person's doing.
func (p *people) useKinds() {
	r, up := p.w.random.kinds, p.w.running()
	if len(up) == 0 {
		return
	}
	m, key := pick(r, up), databaseKey(r.IntN(databases))
	apply := func(k api.Key, f api.Fields) {
		p.write(m, "apply "+k.String(), peer.Edit{Kind: peer.EditApply, Key: k, Fields: f})
	}
	remove := func(k api.Key) { p.write(m, "delete "+k.String(), peer.Edit{Kind: peer.EditDelete, Key: k}) }
	switch n := r.IntN(100); {
	case n < 12:
		apply(api.KindObject("Database"), kindFields(r))
	case n < 15:
		remove(api.KindObject("Database"))
	case n < 45:
		apply(key, databaseFields(r))
	case n < 60:
		p.write(m, "edit "+key.String(), peer.Edit{Kind: peer.EditPatch, Key: key, Fields: api.Fields{"spec.note": api.Str(fmt.Sprint(r.IntN(9)))}})
	case n < 70:
		remove(key)
	case n < 76:
		p.write(m, "switch "+key.String(), switchTo(key, pick(r, []string{"paused", api.TargetReady})))
	case n < 84:
		apply(api.Key{Kind: "Step", Name: "audit"}, stepFields(r))
	case n < 88:
		remove(api.Key{Kind: "Step", Name: "audit"})
	case n < 92:
		apply(api.Key{Kind: "Target", Name: "staged"}, api.Fields{"spec.kind": `"Pod"`, "spec.requires": api.List(pick(r, []string{"image", "network"}))})
	case n < 94:
		remove(api.Key{Kind: "Target", Name: "staged"})
	default:
		pod := podKey(r.IntN(podNames))
		p.write(m, "switch "+pod.String(), switchTo(pod, pick(r, []string{"staged", api.TargetReady})))
	}
}

func switchTo(key api.Key, target string) peer.Edit {
	return peer.Edit{Kind: peer.EditSwitch, Key: key, Switch: peer.Switch{Target: target, Mode: lifecycle.ModeReplace}}
}

// kindFields is one of a few versions of the kind: fields, defaults, rules and steps come and
// go, but for the step that makes something outside, which objects may have done.
func kindFields(r source) api.Fields {
	f := api.Fields{
		"spec.doc":                                  `"A database."`,
		`spec.fields."spec.size".type`:              `"bytes"`,
		`spec.fields."spec.size".doc`:               `"How large it is."`,
		`spec.fields."spec.note".type`:              `"string"`,
		`spec.fields."spec.note".doc`:               `"What people say."`,
		`spec.fields."spec.copies".type`:            `"integer"`,
		`spec.fields."spec.copies".doc`:             `"How many pods it has."`,
		`spec.fields."spec.copies".default`:         api.Int(1 + r.IntN(2)),
		`spec.fields."status.loops.db.volume".type`: `"string"`,
		`spec.fields."status.loops.db.volume".doc`:  `"Where it is."`,
		"spec.steps.volume.loop":                    `"db"`,
		"spec.steps.volume.reads":                   api.List("spec.size"),
		"spec.steps.volume.outputs":                 api.List("status.loops.db.volume"),
		"spec.steps.volume.undo":                    "true",
		"spec.steps.serve.loop":                     `"db"`,
		"spec.steps.serve.requires":                 api.List("volume"),
		"spec.steps.serve.reads":                    api.List("spec.copies", "status.loops.db.volume"),
		"spec.steps.serve.children":                 `"Pod"`,
		"spec.targets.paused.requires":              api.List("volume"),
		"spec.targets.paused.doc":                   `"It keeps its volume, and has no pods."`,
	}
	if r.chance(0.5) {
		f["spec.rules.few.check"], f["spec.rules.few.message"] = `"spec.copies < 3"`, `"at most two"`
	}
	if r.chance(0.3) {
		f["spec.steps.note.loop"], f["spec.steps.note.reads"] = `"db"`, api.List("spec.note")
	}
	return f
}

func databaseFields(r source) api.Fields {
	f := api.Fields{"spec.size": api.Bytes(1 << (20 + r.IntN(3)))}
	if r.chance(0.5) {
		f["spec.copies"] = api.Int(1 + r.IntN(3))
	}
	return f
}

// stepFields hooks a step into pods or databases, for everybody's edits or for some.
func stepFields(r source) api.Fields {
	f := api.Fields{
		"spec.kind": pick(r, []string{`"Pod"`, `"Database"`}), "spec.loop": `"audit"`, "spec.step": `"check"`,
		"spec.existing": api.Str(pick(r, []string{api.ExistingNow, api.ExistingNextRun})), "spec.outputs": api.List("status.loops.audit"),
	}
	if f["spec.kind"] == `"Pod"` {
		f["spec.requires"], f["spec.reads"] = api.List("network"), api.List("spec.containers.*.args")
		if r.chance(0.5) {
			f["spec.requiredBy"] = api.List("container")
		}
	} else {
		f["spec.reads"] = api.List("spec.note")
	}
	if r.chance(0.4) {
		f["spec.by"] = api.List("user:alice", "user:bob")
	}
	return f
}

// comeAndGo ends a program of people's on a machine, or starts it again.
func (w *World) comeAndGo() {
	m := pick(w.random.kinds, w.members())
	m.host.detached = !m.host.detached
	w.say("%s: the programs of people's loops are attached: %v", m.name, !m.host.detached)
	m.attached()
}

func (m *machine) attached() {
	if m.core != nil && !m.host.detached {
		m.post(peer.Attached{Loop: "db"})
		m.post(peer.Attached{Loop: "audit"})
	}
}

// programs are people's loops on a machine.
type programs struct{ h *host }

// Foreign says that they can attach.
func (h *host) Foreign() loops.Foreign { return programs{h} }

// Call is what they do: a volume is made outside of the cluster, a pod for each copy.
func (p programs) Call(_ context.Context, c loops.ForeignCall) (lifecycle.Outputs, error) {
	w := p.h.m.w
	if p.h.detached {
		return nil, &lifecycle.Error{Code: api.LoopDetached, Wait: true, Message: loops.Detached(c.Loop, p.h.m.name)}
	}
	w.sometimes("a loop of people's is called for " + c.Loop + ":" + c.Step)
	in := c.Inputs.Fields
	switch c.Loop + ":" + c.Step {
	case "db:volume":
		w.outside[c.Inputs.ID] = !c.Undo
		if c.Undo {
			w.sometimes("a loop of people's takes a step back")
			return nil, nil
		}
		return lifecycle.Outputs{"status.loops.db.volume": api.Str(fmt.Sprint("volume of ", in.Bytes("spec.size")))}, nil
	case "db:serve":
		owns := &lifecycle.Owns{}
		for slot := range int(in.Int("spec.copies")) {
			owns.Children = append(owns.Children, lifecycle.Child{Slot: slot, Fields: api.Fields{
				"spec.containers.app.image": api.Str(imageGood), "spec.containers.app.args": api.List(in.String("status.loops.db.volume")),
				"spec.containers.app.resources.cpu": api.CPU(20), "spec.containers.app.resources.memory": api.Bytes(16 << 20),
			}})
		}
		return nil, owns
	case "audit:check":
		for _, path := range in.Paths() {
			if !api.Below(path, "spec") {
				w.fail(5, "step audit:check of %s is given %s, which it does not read", c.Inputs.Key, path)
			}
		}
		return lifecycle.Outputs{"status.loops.audit": api.Str(fmt.Sprint(len(in)))}, nil
	}
	return nil, nil
}

// leftOutside says what people's loops made that belongs to no object any more, and what an
// object lacks that has it by its status, though no disk lost what tells of it.
func (c *checker) leftOutside() string {
	if len(c.damages) > 0 || len(c.w.outside) == 0 {
		return ""
	}
	there := map[string]bool{}
	if len(c.w.machines) > len(c.w.members()) {
		return "" // what a machine wrote that was removed counts no more
	}
	for _, o := range c.w.members()[0].core.List("Database") {
		there[o.Object.ID] = true
		if o.Eval.Verdict == lifecycle.Converged && !c.w.outside[o.Object.ID] {
			return o.Object.Key.String() + " is converged, and has no volume"
		}
	}
	for _, id := range sortedIDs(c.w.outside) {
		if c.w.outside[id] && !there[id] {
			return fmt.Sprintf("there is a volume for database %s, which no object wants", id)
		}
	}
	return ""
}
