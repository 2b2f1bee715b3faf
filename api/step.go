package api

import (
	"strings"
	"sync"
)

// LoopSteps judges whether the steps of foreign loops fit into the lifecycles that they
// hook into.
const LoopSteps = "steps"

// Values of spec.existing.
const (
	ExistingNow     = "now"
	ExistingNextRun = "next-run"
)

// Values of spec.where.
const (
	WhereMachine  = "machine"
	WhereExecutor = "executor"
)

// foreignStatus is where the loops that attach to a peer write, each below its name.
const foreignStatus = "status.loops"

// ForeignStatus is the path below which a foreign loop writes its outputs.
func ForeignStatus(loop string) string { return Child(foreignStatus, loop) }

// ForeignStep is the name in a lifecycle of a foreign loop's step. It tells the loop,
// so that every replica knows who may write its result, whether it has seen the Step
// or not.
func ForeignStep(loop, step string) string { return loop + ":" + step }

// LoopAuthor begins the author of what a foreign loop's program declares.
const LoopAuthor = "user:loop-"

// foreignLoop returns the loop of a foreign step's name.
func foreignLoop(step string) (loop string, ok bool) {
	loop, _, ok = strings.Cut(step, ":")
	return loop, ok && CheckName(loop) == nil
}

// foreignOwner returns the loop that writes a path below status.loops.
func foreignOwner(path string) (loop string, ok bool) {
	if !Below(path, foreignStatus) {
		return "", false
	}
	loop, _, _ = cut(path[len(foreignStatus)+1:])
	return loop, CheckName(loop) == nil
}

var stepKind = Kind{
	Name: "Step", Plural: "steps",
	Doc: "A Step hooks a step of a foreign loop into the lifecycle of every object of a kind, without any of those being touched. " +
		"The loop is a program that attaches to the peer of each machine; in a lifecycle its step is called LOOP:NAME.",
	Fields: []Field{
		{Path: "spec.kind", Type: TypeString, Required: true,
			Doc: "The kind of object whose lifecycle gets the step."},
		{Path: "spec.loop", Type: TypeString, Required: true,
			Doc: "The loop that does the step: the name under which its program attaches."},
		{Path: "spec.step", Type: TypeString, Computed: "the name of the Step",
			Doc: "What the step is called within its loop."},
		{Path: "spec.after", Type: TypeStrings,
			Doc: "Steps and targets that are over before this one begins; they need not be done."},
		{Path: "spec.before", Type: TypeStrings,
			Doc: "Steps and targets that begin when this one is over."},
		{Path: "spec.requires", Type: TypeStrings,
			Doc: "Steps and targets that have to be done before this one runs."},
		{Path: "spec.requiredBy", Type: TypeStrings,
			Doc: "Steps and targets that don't begin until this one is done."},
		{Path: "spec.wants", Type: TypeStrings,
			Doc: "Steps and targets that run first as well, but whose failure does not hold this one up."},
		{Path: "spec.wantedBy", Type: TypeStrings,
			Doc: "Steps and targets that have this one run first, but are not held up by its failure."},
		{Path: "spec.reads", Type: TypeStrings,
			Doc: "Fields that the step is given, with all below them; when one changes it runs again. * stands for a key of a map."},
		{Path: "spec.consults", Type: TypeStrings,
			Doc: "Kinds of objects that wake the step while it is blocked, when one of them changes."},
		{Path: "spec.outputs", Type: TypeStrings,
			Doc: "Fields that the step writes, below status.loops.LOOP."},
		{Path: "spec.claims", Type: TypeStrings,
			Doc: "Resources outside of the cluster that no other loop may touch."},
		{Path: "spec.children", Type: TypeString,
			Doc: "The kind of the objects that the step makes and owns, each a child of its object."},
		{Path: "spec.timeout", Type: TypeDuration, Unit: "seconds", Default: `"1m"`,
			Doc: "How long one attempt may take."},
		{Path: "spec.every", Type: TypeDuration, Unit: "seconds",
			Doc: "Has the loop called again in this interval, though nothing that the step reads changed, to look at what no field tells; at least 1s. Nothing is written where the answer is the same."},
		{Path: "spec.entries", Type: TypeInt, Computed: "60",
			Doc: "How many entries the loop may write about one object at once; after that it earns one more every 2 s. At least 2, at most 600. Of several Steps of one loop that hook into one kind the greatest counts."},
		{Path: "spec.by", Type: TypeStrings,
			Doc: "Authors whose edits call the step, as in user:alice, 'user:*' or loop:pinned. It is given the spec as one of them last left it; what others edit neither calls it nor reaches it, and objects that none of them ever edited are passed over. Without it, everybody's."},
		{Path: "spec.notBy", Type: TypeStrings,
			Doc: "Authors whose edits do not call the step, though spec.by names them or is left out."},
		{Path: "spec.undo", Type: TypeBool, Default: "false",
			Doc: "Whether the loop is called to take the step back, on the way down."},
		{Path: "spec.where", Type: TypeString, Computed: "machine for pods and machines, executor for the others", Enum: []string{WhereMachine, WhereExecutor},
			Doc: "Which peer calls the loop: the one on the object's machine, or the one that hashing gives the object."},
		{Path: "spec.existing", Type: TypeString, Default: `"next-run"`, Enum: []string{ExistingNow, ExistingNextRun},
			Doc: "When objects that were there before the Step run it: now, or when their spec next changes."},

		{Path: "lifecycle.target", Type: TypeString, Default: `"ready"`, Enum: []string{TargetReady},
			Doc: "The target that the Step is to reach."},

		{Path: "status.fits", Type: TypeBool, Owner: LoopSteps,
			Doc: "Whether the step is part of the lifecycle. One that clashes with an older one is not, on any peer."},
	},
	Groups: []Group{
		{Path: "spec", Doc: "What is wanted. People write it."},
		{Path: "lifecycle", Doc: "Which point of its lifecycle the Step is to be at."},
		{Path: "status", Doc: "What is. Loops write it, each its own fields."},
	},
	Steps: []Step{{"register", LoopSteps}},
}

// stepRules: a foreign loop writes below its own name, and has a name of its own.
func stepRules(f Fields, add addFunc) {
	loop := f.String("spec.loop")
	for _, path := range []string{"spec.loop", "spec.step"} {
		if err := CheckName(f.String(path)); f.Has(path) && err != nil {
			add(path, "%v", err)
		}
	}
	if builtinLoop(loop) {
		add("spec.loop", "%q is a loop of the peer itself; choose another name", loop)
	}
	if kind := f.String("spec.kind"); f.String("spec.where") == WhereMachine && kind != podKind.Name && kind != machineKind.Name {
		add("spec.where", "a %s has no machine; write executor, or leave it out", kind)
	}
	durationRange(f, "spec.every", minEvery, maxGrace, add)
	entriesRange(f, "spec.entries", add)
	for _, path := range []string{"spec.by", "spec.notBy"} {
		for _, pattern := range f.Strings(path) {
			if err := checkAuthor(pattern); err != nil {
				add(path, "%v", err)
			}
		}
	}
	foreignOutputs(f, "spec.outputs", f.String("spec.kind"), loop, add)
	foreignClaims(f, "spec.claims", add)
}

// The bounds of a loop's entry budget: a run writes two entries, and each goes to the disk
// of every machine.
const minEntries, maxEntries = 2, 600

func entriesRange(f Fields, path string, add addFunc) {
	if n := f.Int(path); f.Has(path) && (n < minEntries || n > maxEntries) {
		add(path, "%d is not between %d and %d", n, minEntries, maxEntries)
	}
}

// builtinLoop reports whether a loop of the peer itself has the name.
func builtinLoop(name string) bool { return name == OwnerParent || builtinLoops()[name] }

// builtinLoops are the loops that own something in some table.
var builtinLoops = sync.OnceValue(func() map[string]bool {
	loops := map[string]bool{}
	for _, s := range Builtin().schemas {
		for _, loop := range s.steps {
			loops[loop] = true
		}
	}
	return loops
})
