package sim

import (
	"fmt"
	"strconv"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
	"starling.dev/starling/peer"
)

// watchRolls has each decision about a PinnedDeployment's pods looked at.
func (w *World) watchRolls() error {
	loop := loops.Pinned()
	for i := range loop.Steps {
		decide := loop.Steps[i].Manage
		loop.Steps[i].Manage = func(v lifecycle.View, in lifecycle.Inputs) (lifecycle.Outputs, []lifecycle.Child, error) {
			out, children, err := decide(v, in)
			w.check.rollout(in, children)
			return out, children, err
		}
	}
	g, err := lifecycle.NewGraph(loop.Kind, loops.PinnedTargets(), []lifecycle.Loop{loop})
	if err != nil {
		return fmt.Errorf("compile the lifecycle of deployments: %w", err)
	}
	kind := w.kinds[loop.Kind]
	kind.Graph = g
	w.kinds[loop.Kind] = kind
	return nil
}

// rollout is invariant 12: in the view of the executor that decides, no pod is made beyond
// the surge, and none that serves is taken out of service below what has to be available.
func (c *checker) rollout(in lifecycle.Inputs, children []lifecycle.Child) {
	f := in.Fields
	replicas, surge, unavailable := f.Int("spec.replicas"), f.Int("spec.surge"), f.Int("spec.unavailable")
	total, serving := int64(0), int64(0)
	state := map[int]string{}
	for _, slot := range f.Keys("children") {
		n, _ := strconv.Atoi(slot)
		state[n] = f.String("children." + slot + ".state")
		total++
		if state[n] == "serving" {
			serving++
		}
	}
	made, taken := int64(0), int64(0)
	for _, ch := range children {
		switch was, exists := state[ch.Slot]; {
		case !exists && !ch.Delete:
			made++
		case was == "serving" && (ch.Delete || ch.Fields != nil):
			taken++
		}
	}
	if made > 0 {
		c.w.sometimes("a deployment makes a pod")
	}
	if taken > 0 {
		c.w.sometimes("a rollout takes a pod out of service")
	}
	if made > 0 && total+made > replicas+surge {
		c.w.fail(12, "%s makes %d pods of %s beside %d; it is to have %d and a surge of %d", in.Machine, made, in.Key, total, replicas, surge)
	}
	if taken > 0 && serving-taken < replicas-unavailable {
		c.w.fail(12, "%s takes %d of %d serving pods of %s; %d of %d may be missing", in.Machine, taken, serving, in.Key, unavailable, replicas)
	}
}

// roll is a person who rolls a deployment forth or back.
func (p *people) roll() {
	r := p.w.random.damage
	up := p.w.running()
	if len(up) == 0 {
		return
	}
	key := api.Key{Kind: "PinnedDeployment", Namespace: "default", Name: "d"}
	f := api.Fields{
		"spec.replicas": api.Int(1 + r.IntN(4)), "spec.percentNext": api.Int(10 * r.IntN(11)),
		"spec.surge": api.Int(1 + r.IntN(2)), "spec.unavailable": api.Int(r.IntN(2)),
	}
	for _, side := range []string{"previous", "next"} {
		at := "spec." + side + ".containers.app."
		f[at+"image"], f[at+"args"] = api.Str(imageGood), api.List(fmt.Sprint(side, r.IntN(2)))
		f[at+"resources.cpu"], f[at+"resources.memory"] = api.CPU(50), api.Bytes(32<<20)
	}
	m := pick(r, up)
	p.last++
	p.waiting[p.last] = asked{m, "roll d", nil}
	p.w.say("user:dora at %s: roll d", m.name)
	m.post(peer.Write{Request: p.last, Author: "user:dora", Message: "roll", Edits: []peer.Edit{{Kind: peer.EditApply, Key: key, Fields: f}}})
}

// rollEvery is how often a deployment is rolled in a world that has one.
const rollEvery = 3 * time.Second
