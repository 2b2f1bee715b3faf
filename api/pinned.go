package api

import (
	"slices"
	"strings"
)

// LoopPinned makes the pods of a PinnedDeployment.
const LoopPinned = "pinned"

// Values of spec.rounding.
const (
	RoundNearest = "nearest"
	RoundUp      = "up"
	RoundDown    = "down"
)

// The templates of a PinnedDeployment, by the fields below "spec." that hold them.
const (
	TemplateNext     = "next"
	TemplatePrevious = "previous"
)

var pinnedKind = Kind{
	Name: "PinnedDeployment", Plural: "pinneddeployments", Namespaced: true,
	Doc: "A PinnedDeployment keeps a number of equal pods, and moves them from one template to the next by a percentage that is " +
		"part of its spec: at rest it may stay at any. It is what Deployment is elsewhere, without a rollout that runs by itself.",
	Fields: slices.Concat(pinnedFields, template(TemplateNext), template(TemplatePrevious), pinnedStatus),
	Groups: slices.Concat(pinnedGroups, templateGroups(TemplateNext), templateGroups(TemplatePrevious)),
	Steps:  []Step{{"pods", LoopPinned}},

	Columns: []string{"status.ready", "status.replicas", "status.next"},

	Children: "Pod",
	Parent:   LoopPinned,
}

var pinnedFields = []Field{
	{Path: "spec.replicas", Type: TypeInt, Default: "1",
		Doc: "How many pods there are, of both templates together; 0 to 1000."},
	{Path: "spec.scaling", Type: TypeString,
		Doc: "The loop whose status.loops.LOOP.replicas counts in the place of spec.replicas, an autoscaler say. Until it has written one, and when this is taken out, spec.replicas counts."},
	{Path: "spec.percentNext", Type: TypeInt, Default: "100",
		Doc: "How many of the pods run the next template, in percent; the rest run the previous one. `peer roll` writes it; 0 takes everything back."},
	{Path: "spec.rounding", Type: TypeString, Default: `"nearest"`, Enum: []string{RoundNearest, RoundUp, RoundDown},
		Doc: "How the number of pods of the next template is rounded; nearest rounds one half up."},
	{Path: "spec.surge", Type: TypeInt, Default: "1",
		Doc: "How many pods more than replicas there may be at any instant while pods change."},
	{Path: "spec.unavailable", Type: TypeInt, Default: "0",
		Doc: "How many fewer pods than replicas may be ready at any instant while pods change. A restart in place counts."},
	{Path: "spec.paused", Type: TypeBool, Default: "false",
		Doc: "Whether pods stay with the template that they run. Missing pods are still made."},

	{Path: "lifecycle.target", Type: TypeString, Default: `"ready"`, Enum: []string{TargetReady, TargetStopped},
		Doc: "The target that the deployment is to reach. A stopped one has no pods."},
	{Path: "lifecycle.from", Type: TypeString,
		Doc: "The target at which the deployment was last at rest: a switch that is cancelled returns there. `peer switch` writes it."},
	{Path: "lifecycle.mode", Type: TypeString, Enum: switchModes,
		Doc: "What another switch may do while this one is under way; replace where this is not given. `peer switch --mode` writes it."},
	{Path: "lifecycle.skip", Type: TypeStrings,
		Doc: "Steps that are passed over on the way to the target. `peer switch --skip` writes it."},
}

var pinnedStatus = []Field{
	{Path: "status.replicas", Type: TypeInt, Owner: LoopPinned,
		Doc: "How many pods there are to be: spec.replicas, or what the loop of spec.scaling says."},
	{Path: "status.ready", Type: TypeInt, Owner: LoopPinned,
		Doc: "How many pods run what they should and are ready."},
	{Path: "status.next", Type: TypeInt, Owner: LoopPinned,
		Doc: "How many pods run the next template."},
	{Path: "status.templates.*.rev", Type: TypeInt, Owner: LoopPinned,
		Doc: "The rev of the deployment that brought the template as it is now."},
	{Path: "status.templates.*.hash", Type: TypeString, Owner: LoopPinned,
		Doc: "Tells templates apart; equal templates are one version."},
	{Path: "status.slots.*.pod", Type: TypeString, Owner: LoopPinned,
		Doc: "The name of the slot's pod."},
	{Path: "status.slots.*.wanted", Type: TypeInt, Owner: LoopPinned,
		Doc: "The rev of the template that the pod is to run."},
	{Path: "status.slots.*.running", Type: TypeInt, Owner: LoopPinned,
		Doc: "The rev of the template that the pod runs; absent until it runs one."},
	{Path: "status.slots.*.ready", Type: TypeBool, Owner: LoopPinned,
		Doc: "Whether the pod runs what it should and is ready."},
}

var pinnedGroups = []Group{
	{Path: "spec", Doc: "What is wanted. People write it."},
	{Path: "spec.next", Doc: "The template that pods are moved to: the spec of a pod."},
	{Path: "spec.previous", Doc: "The template that pods are moved from, and return to when the roll is aborted. Without it, there is only the next one."},
	{Path: "lifecycle", Doc: "Which point of its lifecycle the deployment is to be at."},
	{Path: "status", Doc: "What is. Loops write it, each its own fields."},
	{Path: "status.templates", Doc: "The templates, next and previous."},
	{Path: "status.templates.*", Key: KeyName, Doc: "One template."},
	{Path: "status.slots", Doc: "The pods, a map by slot. Slots beyond the replicas are the surge."},
	{Path: "status.slots.*", Key: KeyName, Doc: "One pod."},
}

// template returns a pod's spec as fields below spec.NAME. A template has no defaults
// of its own: what its author did not write, the pod's readers fill in.
func template(name string) []Field {
	var fields []Field
	for _, f := range podFields {
		rest, ok := strings.CutPrefix(f.Path, "spec.")
		if !ok || f.Owner != People {
			continue
		}
		f.Path = "spec." + name + "." + rest
		if f.Default != "" {
			f.Default, f.Computed = "", "that of the pod"
		}
		fields = append(fields, f)
	}
	return fields
}

func templateGroups(name string) []Group {
	var groups []Group
	for _, g := range podGroups {
		if rest, ok := strings.CutPrefix(g.Path, "spec."); ok && rest != "parent" {
			g.Path = "spec." + name + "." + rest
			groups = append(groups, g)
		}
	}
	return groups
}

// Template returns the pod spec that a PinnedDeployment holds as next or previous, as
// a pod's fields; empty where the deployment has none.
func Template(f Fields, name string) Fields {
	spec := Fields{}
	for path, v := range f {
		if rest, ok := strings.CutPrefix(path, "spec."+name+"."); ok {
			spec["spec."+rest] = v
		}
	}
	return spec
}

// MaxReplicas is how many pods a deployment may have.
const MaxReplicas = 1000

func pinnedRules(f Fields, add addFunc) {
	intRange(f, "spec.replicas", 0, MaxReplicas, add)
	intRange(f, "spec.percentNext", 0, 100, add)
	intRange(f, "spec.surge", 0, MaxReplicas, add)
	intRange(f, "spec.unavailable", 0, MaxReplicas, add)
	if loop := f.String("spec.scaling"); f.Has("spec.scaling") {
		if err := CheckName(loop); err != nil {
			add("spec.scaling", "%v", err)
		} else if builtinLoop(loop) {
			add("spec.scaling", "%q is a loop of the peer itself, and scales nothing", loop)
		}
	}
	if f["spec.surge"] == "0" && (f["spec.unavailable"] == "0" || !f.Has("spec.unavailable")) {
		add("spec.surge", "surge and unavailable are both 0, so that no pod could ever be changed; raise one of them")
	}
	for _, name := range []string{TemplateNext, TemplatePrevious} {
		spec := Template(f, name)
		if name == TemplatePrevious && len(spec) == 0 {
			continue
		}
		podRules(spec, func(path, format string, args ...any) {
			add("spec."+name+strings.TrimPrefix(path, "spec"), format, args...)
		})
	}
}

func intRange(f Fields, path string, low, high int64, add addFunc) {
	if n := f.Int(path); f.Has(path) && (n < low || n > high) {
		add(path, "%d is not between %d and %d", n, low, high)
	}
}
