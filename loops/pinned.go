package loops

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// Pinned returns the loop of PinnedDeployments: it makes their pods, and moves them
// from one template to the other as far as the spec says.
func Pinned() lifecycle.Loop {
	return lifecycle.Loop{
		Name: api.LoopPinned,
		Kind: "PinnedDeployment",
		Steps: []lifecycle.Step{{
			Name:     "pods",
			Where:    lifecycle.OnExecutor,
			Reads:    []string{"spec", "children", "scaling"},
			Feedback: []string{"scaling"}, // a loop may decide by what the pods do
			Outputs:  []string{"status.replicas", "status.ready", "status.next", "status.templates", "status.slots"},
			Timeout:  10 * time.Minute, // without any of its pods getting further
			Children: "Pod",
			Manage:   managePods,
		}},
	}
}

// PinnedTargets are the named points of a PinnedDeployment's lifecycle.
func PinnedTargets() []lifecycle.Target {
	return []lifecycle.Target{
		{Name: api.TargetReady, Goal: true, Requires: []string{"pods"}, Doc: "Every pod runs its template and is ready."},
		{Name: api.TargetStopped, Goal: true, Doc: "There are no pods."},
	}
}

// ChildState is a child as its parent's step sees it.
type ChildState struct {
	Object *lifecycle.Object
	// Settled: what its spec says runs. Ready: that, and it can do its work.
	Settled, Ready bool
}

// How a pod stands, as its deployment reads it below "children.".
const (
	childServing  = "serving"  // it runs its spec and is ready
	childRunning  = "running"  // it runs its spec and is not ready
	childChanging = "changing" // it does not run its spec yet
	childLeaving  = "leaving"  // it is being deleted
)

// DerivePinned adds what a deployment reads of its pods: for each slot the template
// that the pod is told to run, and how it stands.
func DerivePinned(o *lifecycle.Object, v Surroundings) api.Fields {
	fields := api.Fields{}
	for _, c := range v.Children(o, api.LoopPinned) {
		at := "children." + strconv.FormatInt(c.Object.Fields.Int("spec.parent.slot"), 10)
		fields[at+".template"] = api.Str(templateHash(c.Object.Fields))
		fields[at+".state"] = api.Str(standing(c))
	}
	if loop := o.Fields.String("spec.scaling"); loop != "" {
		if n, ok := o.Field(api.ForeignStatus(loop) + ".replicas"); ok {
			fields["scaling.replicas"] = n
		}
	}
	return fields
}

// replicasOf is how many pods a deployment is to have: what its spec says, or the loop
// that its spec hands that over to.
func replicasOf(f api.Fields) int64 {
	n := f.Int("spec.replicas")
	if f.Has("scaling.replicas") {
		n = f.Int("scaling.replicas")
	}
	return min(max(n, 0), api.MaxReplicas)
}

func standing(c ChildState) string {
	switch {
	case c.Object.Deleted:
		return childLeaving
	case !c.Settled:
		return childChanging
	case !c.Ready:
		return childRunning
	}
	return childServing
}

// templateHash tells pod specs apart, defaults filled in, so that writing out a default
// makes no other template.
func templateHash(spec api.Fields) string {
	effective := api.Effective("Pod", spec)
	h := sha256.New()
	for _, path := range effective.Paths() {
		if api.Below(path, "spec") && !api.Below(path, "spec.parent") {
			fmt.Fprintf(h, "%q=%s\n", path, effective[path])
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// deployment is a PinnedDeployment being decided about.
type deployment struct {
	in        lifecycle.Inputs
	templates map[string]api.Fields // by hash
	revs      map[string]int64      // rev of each template that is known, by hash
	next      string                // hash
	previous  string                // hash; equal to next where there is only one
	want      []string              // hash by slot
	slots     []slot
	running   map[int]bool // by slot: it runs what it is told to
}

// managePods decides which pods there should be, within the bounds of the roll.
func managePods(_ lifecycle.View, in lifecycle.Inputs) (lifecycle.Outputs, []lifecycle.Child, error) {
	d := newDeployment(in)
	b := bounds{
		replicas: int(replicasOf(in.Fields)), surge: int(in.Fields.Int("spec.surge")),
		unavailable: int(in.Fields.Int("spec.unavailable")),
	}
	paused := in.Fields.Bool("spec.paused")
	moves := roll(d.slots, d.want, b, paused)
	var children []lifecycle.Child
	for _, m := range moves {
		children = append(children, d.child(m))
	}
	return d.status(), children, d.unfinished(paused)
}

func newDeployment(in lifecycle.Inputs) *deployment {
	d := &deployment{in: in, templates: map[string]api.Fields{}, revs: map[string]int64{}, running: map[int]bool{}}
	d.next = d.template(api.TemplateNext)
	d.previous = d.next
	if len(api.Template(in.Fields, api.TemplatePrevious)) > 0 {
		d.previous = d.template(api.TemplatePrevious)
	}
	d.know()
	replicas := replicasOf(in.Fields)
	n := share(replicas, in.Fields.Int("spec.percentNext"), in.Fields.String("spec.rounding"))
	for i := range replicas {
		if i < n {
			d.want = append(d.want, d.next)
		} else {
			d.want = append(d.want, d.previous)
		}
	}
	for _, key := range in.Fields.Keys("children") {
		d.see(key)
	}
	slices.SortFunc(d.slots, func(a, b slot) int { return cmp.Compare(a.index, b.index) })
	return d
}

func (d *deployment) template(name string) (hash string) {
	spec := api.Template(d.in.Fields, name)
	hash = templateHash(spec)
	d.templates[hash] = spec
	return hash
}

// know finds the rev of each template: the one that is noted for its hash, under
// whichever name, or this rev for one that is new.
func (d *deployment) know() {
	for _, name := range d.in.Previous.Keys("status.templates") {
		at := "status.templates." + name
		d.revs[d.in.Previous.String(at+".hash")] = d.in.Previous.Int(at + ".rev")
	}
	for _, hash := range []string{d.next, d.previous} {
		if d.revs[hash] == 0 {
			d.revs[hash] = int64(d.in.Rev)
		}
	}
}

func (d *deployment) see(key string) {
	index, err := strconv.Atoi(key)
	if err != nil {
		return // no loop writes such a slot
	}
	state := d.in.Fields.String("children." + key + ".state")
	d.running[index] = state == childServing || state == childRunning
	d.slots = append(d.slots, slot{
		index: index, template: d.in.Fields.String("children." + key + ".template"),
		serving: state == childServing, leaving: state == childLeaving,
	})
}

// child is what a move means for the slot's pod.
func (d *deployment) child(m move) lifecycle.Child {
	c := lifecycle.Child{Key: d.key(m.slot), Slot: m.slot, Delete: m.remove}
	if m.remove {
		c.Note = "one pod less"
		return c
	}
	c.Fields = d.templates[m.template]
	c.Note = fmt.Sprintf("template of rev %d", d.revs[m.template])
	return c
}

// maxChildPrefix leaves room in a name for the identity and the slot.
const maxChildPrefix = 63 - len("-012345-9999")

// key names the pod of a slot after the deployment's identity: whoever makes it makes
// this name.
func (d *deployment) key(slot int) api.Key {
	name := d.in.Key.Name
	name = strings.TrimRight(name[:min(len(name), maxChildPrefix)], "-")
	return api.Key{Kind: "Pod", Namespace: d.in.Key.Namespace, Name: fmt.Sprintf("%s-%s-%d", name, d.in.ID[:6], slot)}
}

// status tells each slot's pod, and the templates.
func (d *deployment) status() lifecycle.Outputs {
	out := lifecycle.Outputs{}
	ready, next := 0, 0
	for _, s := range d.slots {
		if s.leaving {
			continue
		}
		at := fmt.Sprintf("status.slots.%d.", s.index)
		out[at+"pod"] = api.Str(d.key(s.index).Name)
		out[at+"ready"] = api.Bool(s.serving)
		out[at+"wanted"] = api.Int(d.revs[d.wanted(s)])
		if rev := d.revs[s.template]; d.running[s.index] && rev != 0 {
			out[at+"running"] = api.Int(rev)
		} else if before, ok := d.in.Previous[at+"running"]; ok {
			out[at+"running"] = before
		}
		if s.serving {
			ready++
		}
		if s.template == d.next {
			next++
		}
	}
	out["status.replicas"] = api.Int(len(d.want))
	out["status.ready"], out["status.next"] = api.Int(ready), api.Int(next)
	for name, hash := range map[string]string{api.TemplateNext: d.next, api.TemplatePrevious: d.previous} {
		out["status.templates."+name+".hash"] = api.Str(hash)
		out["status.templates."+name+".rev"] = api.Int(d.revs[hash])
	}
	return out
}

// wanted is the template that a slot is to come to; a surge pod's is its own.
func (d *deployment) wanted(s slot) string {
	if s.index < len(d.want) {
		return d.want[s.index]
	}
	return s.template
}

// unfinished says what is missing; nil when every pod is as it should be and there is
// no other. A paused deployment is content with pods of either template.
func (d *deployment) unfinished(paused bool) error {
	good, beyond := 0, 0
	for _, s := range d.slots {
		switch {
		case s.index >= len(d.want):
			beyond++
		case s.serving && (paused || s.template == d.want[s.index]):
			good++
		}
	}
	switch {
	case good < len(d.want):
		return &lifecycle.Pending{Message: fmt.Sprintf("%d of %d pods run their template and are ready", good, len(d.want))}
	case beyond > 0:
		return &lifecycle.Pending{Message: fmt.Sprintf("%d pods more than %d are to go", beyond, len(d.want))}
	}
	return nil
}
