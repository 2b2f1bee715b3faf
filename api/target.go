package api

// targetKind: a Target is a named point in the lifecycle of a kind, as `running` is.
var targetKind = Kind{
	Name: "Target", Plural: "targets",
	Doc: "A Target is a named point in the lifecycle of every object of a kind, as running is in a pod's, for Steps to order themselves " +
		"around: one requires steps and is required by others, and neither side has to know the other.",
	Fields: []Field{
		{Path: "spec.kind", Type: TypeString, Required: true,
			Doc: "The kind of object whose lifecycle gets the target."},
		{Path: "spec.requires", Type: TypeStrings,
			Doc: "Steps and targets that are done when this one is reached."},
		{Path: "spec.after", Type: TypeStrings,
			Doc: "Steps and targets that are over when this one is reached; they need not be done."},
		{Path: "spec.goal", Type: TypeBool, Default: "true",
			Doc: "Whether `peer switch` may bring objects to the target: then they run what it requires, and nothing else."},
		{Path: "spec.doc", Type: TypeString,
			Doc: "What it means to have reached the target."},

		{Path: "lifecycle.target", Type: TypeString, Default: `"ready"`, Enum: []string{TargetReady},
			Doc: "The target that the Target itself is to reach."},

		{Path: "status.fits", Type: TypeBool, Owner: LoopSteps,
			Doc: "Whether the target is part of the lifecycle. One that clashes with an older one is not, on any peer."},
	},
	Groups: []Group{
		{Path: "spec", Doc: "What is wanted. People write it. In the lifecycle the target has the name of the Target."},
		{Path: "lifecycle", Doc: "Which point of its lifecycle the Target is to be at."},
		{Path: "status", Doc: "What is. Loops write it, each its own fields."},
	},
	Steps: []Step{{"register", LoopSteps}},
}

// HookedTarget is a Target as loops read it; see [Pod].
type HookedTarget struct {
	Spec      TargetSpec
	Lifecycle Lifecycle
	Status    HookedStatus
}

// TargetSpec is a named point, as its Target declares it.
type TargetSpec struct {
	Kind            string
	Requires, After []string
	Doc             string
	Goal            bool
}

// WithTarget returns the catalog with what a Target object declares, if objects can be
// switched to it.
func (c *Catalog) WithTarget(name string, f Fields) *Catalog {
	k, ok := c.KindByName(f.String("spec.kind"))
	if !ok || CheckName(name) != nil || f.Has("spec.goal") && !f.Bool("spec.goal") {
		return c
	}
	return c.WithGoals(k.Name, name)
}

// DecodeTarget reads a Target's fields, as DecodePod reads a pod's.
func DecodeTarget(f Fields) (HookedTarget, error) {
	r := newReader(f)
	t := HookedTarget{
		Spec:      TargetSpec{Kind: r.str("spec.kind"), Requires: r.strings("spec.requires"), After: r.strings("spec.after"), Doc: r.str("spec.doc"), Goal: r.bool("spec.goal")},
		Lifecycle: r.lifecycle(),
		Status:    HookedStatus{Fits: r.bool("status.fits")},
	}
	return t, r.err
}
