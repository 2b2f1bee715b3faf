package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/peer"
)

// people are random persons at random machines.
type people struct {
	w       *World
	last    uint64
	waiting map[uint64]asked
}

// asked is a request that was not answered yet.
type asked struct {
	m    *machine
	what string
	done func(peer.Answer)
}

func newPeople(w *World) *people { return &people{w: w, waiting: map[uint64]asked{}} }

// podNames are few, so that people meet at the same objects.
const podNames = 8

func podKey(i int) api.Key {
	return api.Key{Kind: "Pod", Namespace: "default", Name: fmt.Sprintf("p%d", i)}
}

func machineKey(name string) api.Key { return api.Key{Kind: "Machine", Name: name} }

// begin has people act while the storm lasts.
func (p *people) begin() { p.w.every(p.w.weather.edit, p.w.random.people, p.act) }

// act is one person's doing.
func (p *people) act() {
	r := p.w.random.people
	up := p.w.running()
	if len(up) == 0 {
		return
	}
	m, key := pick(r, up), podKey(r.IntN(podNames))
	switch n := r.IntN(100); {
	case n < 30:
		p.write(m, "apply "+key.Name, p.apply(key))
	case n < 50:
		p.write(m, "edit "+key.Name, p.patch(key))
	case n < 62:
		p.write(m, "delete "+key.Name, peer.Edit{Kind: peer.EditDelete, Key: key})
	case n < 70:
		p.rollback(m, key)
	case n < 76:
		p.stopOrStart(m, key)
	case n < 84:
		p.drainOrResume(m)
	case n < 92:
		p.writeTwo(m)
	default:
		p.killContainer()
	}
}

// write posts a change set and remembers that somebody waits.
func (p *people) write(m *machine, what string, edits ...peer.Edit) {
	author := "user:" + pick(p.w.random.people, []string{"alice", "bob", "carol"})
	p.ask(m, what, author, nil, edits)
}

func (p *people) ask(m *machine, what, author string, done func(peer.Answer), edits []peer.Edit) {
	p.last++
	p.waiting[p.last] = asked{m, what, done}
	p.w.figures.Writes++
	p.w.say("%s at %s: %s", author, m.name, what)
	m.post(peer.Write{Request: p.last, Author: author, Message: what, Edits: edits})
}

// answered takes the answer to a person's request.
func (p *people) answered(m *machine, a peer.Answer) {
	q, ok := p.waiting[a.Request]
	if !ok {
		return
	}
	delete(p.waiting, a.Request)
	switch {
	case a.Err != nil:
		p.w.sometimes("answer " + a.Err.Code)
		p.w.say("%s answers: %s: %v", m.name, q.what, a.Err)
	case a.Set != "":
		p.w.check.acknowledged(m, a)
		p.w.say("%s answers: %s is done, on %s too", m.name, q.what, orNobody(a.HeldBy))
	}
	if q.done != nil {
		q.done(a)
	}
}

func orNobody(machine string) string {
	if machine == "" {
		return "no other disk"
	}
	return machine
}

// hungUp forgets who waits for a machine whose peer ended: they never hear of it.
func (p *people) hungUp(m *machine) {
	for _, id := range slices.Sorted(maps.Keys(p.waiting)) {
		if p.waiting[id].m == m {
			delete(p.waiting, id)
			p.w.sometimes("a crash leaves a person without an answer")
		}
	}
}

// apply states a whole pod.
func (p *people) apply(key api.Key) peer.Edit {
	r := p.w.random.people
	image := imageGood
	switch n := r.IntN(20); n {
	case 0:
		image = imageMissing
	case 1:
		image = imageCrash
	}
	argument := r.IntN(1000)
	f := api.Fields{
		"spec.containers.app.image":            api.Str(image),
		"spec.containers.app.args":             api.List(fmt.Sprint(argument)),
		"spec.containers.app.resources.cpu":    api.CPU(50 * (1 + r.Int64N(16))),
		"spec.containers.app.resources.memory": api.Bytes((32 << 20) * (1 + r.Int64N(20))),
		"spec.grace":                           api.Duration(time.Duration(2+r.IntN(8)) * time.Second),
	}
	if argument%8 == 0 { // a few pods compete for a few host ports
		f["spec.containers.app.ports.http"] = api.Int(8080)
		f["spec.containers.app.hostPorts.http"] = api.Int(80 + argument/8%3)
	}
	switch {
	case r.chance(p.w.weather.leased):
		f["spec.partition"] = api.Str(api.PartitionLeased)
	case r.chance(0.2):
		f["spec.partition"] = api.Str(api.PartitionPinned)
	}
	if r.chance(0.2) {
		f["spec.restart"] = api.Str(pick(r, []string{api.RestartNever, api.RestartOnFailure}))
	}
	if r.chance(0.3) {
		f["spec.containers.side.image"] = api.Str(imageGood)
	}
	if r.chance(0.1) {
		f["spec.require.zone"] = api.Str("nowhere")
	}
	return peer.Edit{Kind: peer.EditApply, Key: key, Fields: f}
}

// patch changes a field or two.
func (p *people) patch(key api.Key) peer.Edit {
	r := p.w.random.people
	e := peer.Edit{Kind: peer.EditPatch, Key: key, Fields: api.Fields{}}
	switch r.IntN(5) {
	case 0:
		e.Fields["spec.containers.app.args"] = api.List(fmt.Sprint(r.IntN(1000)))
	case 1:
		e.Fields["spec.containers.app.resources.memory"] = api.Bytes((32 << 20) * (1 + r.Int64N(60)))
	case 2:
		e.Fields["spec.labels.tier"] = api.Str(fmt.Sprint(r.IntN(5)))
	case 3:
		e.Unset = []string{"spec.require.zone", "spec.restart"}
	case 4:
		e.Fields["lifecycle.restart"] = api.Int(1 + r.IntN(1000))
	}
	return e
}

func (p *people) stopOrStart(m *machine, key api.Key) {
	target := pick(p.w.random.people, []string{api.TargetStopped, api.TargetReady})
	p.write(m, "switch "+key.Name+" "+target, peer.Edit{Kind: peer.EditPatch, Key: key, Fields: api.Fields{"lifecycle.target": api.Str(target)}})
}

func (p *people) drainOrResume(m *machine) {
	r := p.w.random.people
	target := api.TargetReady
	if r.chance(0.4) {
		target = api.TargetDrained
	}
	which := pick(r, p.w.members())
	p.write(m, "switch machine/"+which.name+" "+target, peer.Edit{
		Kind: peer.EditPatch, Key: machineKey(which.name), Fields: api.Fields{"lifecycle.target": api.Str(target)},
	})
}

// writeTwo is one change set over two objects.
func (p *people) writeTwo(m *machine) {
	a := p.w.random.people.IntN(podNames)
	b := (a + 1) % podNames
	p.write(m, fmt.Sprintf("apply p%d and p%d", a, b), p.apply(podKey(a)), p.apply(podKey(b)))
}

// rollback writes an older spec again, and looks that exactly it is there then.
func (p *people) rollback(m *machine, key api.Key) {
	lives := m.core.Incarnations(key)
	if len(lives) == 0 {
		return
	}
	o := lives[len(lives)-1]
	var revs []crdt.ID
	for _, rev := range o.Revs() {
		if rev.IsRev && rev.Refused == "" {
			revs = append(revs, rev.Change)
		}
	}
	if len(revs) == 0 {
		return
	}
	spec, err := o.SpecAt(pick(p.w.random.people, revs))
	if err != nil {
		p.w.fail(9, "%s: %v", key, err)
		return
	}
	edit := peer.Edit{Kind: peer.EditApply, Key: key, Fields: spec}
	p.ask(m, "roll back "+key.Name, "user:alice", func(a peer.Answer) { p.w.check.rolledBack(m, key, a, spec) }, []peer.Edit{edit})
}

// killContainer ends a container somewhere.
func (p *people) killContainer() {
	r := p.w.random.people
	m := pick(r, p.w.members())
	if len(m.host.pods) == 0 {
		return
	}
	in := m.host.pods[pick(r, sortedIDs(m.host.pods))]
	if len(in.containers) == 0 {
		return
	}
	p.w.say("somebody kills a container of %s on %s", in.name, m.name)
	m.host.exit(in, in.containers[pick(r, sortedIDs(in.containers))], 137)
}
