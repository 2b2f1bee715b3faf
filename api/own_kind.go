package api

// LoopKinds judges whether kinds of people's own can be what they say.
const LoopKinds = "kinds"

var kindKind = Kind{
	Name: "Kind", Plural: "kinds",
	Doc: "A Kind defines a kind of object of people's own: its fields, what is valid, and the lifecycle that foreign loops take each " +
		"object through. Its name, lower case letters and digits, is the kind's: the Kind database defines `kind: Database`. " +
		"Objects of the kind have a namespace, and work with every command as the built-in ones do.",
	Fields: kindFields,
	Groups: kindGroups,
	Steps:  []Step{{"register", LoopKinds}},
}

var kindFields = []Field{
	{Path: "spec.doc", Type: TypeString, Required: true,
		Doc: "What an object of the kind is, in a sentence or two."},
	{Path: "spec.plural", Type: TypeString, Computed: "the name and s",
		Doc: "What several objects of the kind are called, as in `peer get databases`."},
	{Path: "spec.columns", Type: TypeStrings,
		Doc: "Fields that `peer get` shows in a list, beside what it always shows."},

	{Path: "spec.fields.*.type", Type: TypeString, Required: true,
		Enum: []string{string(TypeString), string(TypeInt), string(TypeBool), string(TypeStrings), string(TypeCPU), string(TypeBytes),
			string(TypeDuration), string(TypePort), string(TypeTime), string(TypeJSON)},
		Doc: "How values are written and checked."},
	{Path: "spec.fields.*.doc", Type: TypeString, Required: true,
		Doc: "What the field means, in a sentence or two; `peer explain` shows it."},
	{Path: "spec.fields.*.owner", Type: TypeString, Computed: "people below spec; the loop that the path names below status.loops",
		Doc: "Who writes the field: people, or a loop. It follows from the path, so that all peers agree before they have seen the Kind; where it is written it has to be the same."},
	{Path: "spec.fields.*.unit", Type: TypeString,
		Doc: "The unit of the values, for people."},
	{Path: "spec.fields.*.default", Type: TypeJSON,
		Doc: "The value that reading shows where nothing was written. It is never stored."},
	{Path: "spec.fields.*.required", Type: TypeBool, Default: "false",
		Doc: "Whether the field must be written; within a map, for each of its keys."},
	{Path: "spec.fields.*.enum", Type: TypeStrings,
		Doc: "The only values that a string may have."},

	{Path: "spec.rules.*.check", Type: TypeString, Required: true,
		Doc: "An expression in CEL that is true for what is valid. It sees spec, with defaults, and name and namespace; amounts of cpu are thousandths, bytes are bytes, durations and times are CEL's own."},
	{Path: "spec.rules.*.message", Type: TypeString, Required: true,
		Doc: "What to tell whoever writes something else, and what to do."},
	{Path: "spec.rules.*.field", Type: TypeString, Computed: "the first field that the expression reads",
		Doc: "The field that the message stands at."},

	{Path: "spec.steps.*.loop", Type: TypeString, Required: true,
		Doc: "The loop that does the step: the name under which its program attaches. In the lifecycle the step is LOOP:NAME."},
	{Path: "spec.steps.*.after", Type: TypeStrings,
		Doc: "Steps and targets that are over before this one begins; they need not be done."},
	{Path: "spec.steps.*.requires", Type: TypeStrings,
		Doc: "Steps and targets that have to be done before this one runs. A step of the Kind itself is called by its name alone."},
	{Path: "spec.steps.*.reads", Type: TypeStrings,
		Doc: "Fields that the step is given, with all below them; when one changes it runs again. * stands for a key of a map."},
	{Path: "spec.steps.*.consults", Type: TypeStrings,
		Doc: "Kinds of objects that wake the step while it is blocked, when one of them changes."},
	{Path: "spec.steps.*.outputs", Type: TypeStrings,
		Doc: "Fields that the step writes, below status.loops.LOOP."},
	{Path: "spec.steps.*.claims", Type: TypeStrings,
		Doc: "Resources outside of the cluster that no other loop may touch."},
	{Path: "spec.steps.*.children", Type: TypeString,
		Doc: "The kind of the objects that the step makes and owns, each a child of its object."},
	{Path: "spec.steps.*.timeout", Type: TypeDuration, Unit: "seconds", Default: `"1m"`,
		Doc: "How long one attempt may take."},
	{Path: "spec.steps.*.every", Type: TypeDuration, Unit: "seconds",
		Doc: "Has the loop called again in this interval, though nothing that the step reads changed; at least 1s."},
	{Path: "spec.steps.*.entries", Type: TypeInt, Computed: "60",
		Doc: "How many entries the loop may write about one object at once; after that it earns one more every 2 s. At least 2, at most 600. Of several steps of one loop the greatest counts."},
	{Path: "spec.steps.*.undo", Type: TypeBool, Default: "false",
		Doc: "Whether the loop is called to take the step back, on the way down."},

	{Path: "spec.targets.*.requires", Type: TypeStrings,
		Doc: "Steps and targets that are done when an object is at the target."},
	{Path: "spec.targets.*.goal", Type: TypeBool, Default: "true",
		Doc: "Whether `peer switch` may name the target."},
	{Path: "spec.targets.*.doc", Type: TypeString, Required: true,
		Doc: "What an object at the target is like."},

	{Path: "lifecycle.target", Type: TypeString, Default: `"ready"`, Enum: []string{TargetReady},
		Doc: "The target that the Kind is to reach."},

	{Path: "status.fits", Type: TypeBool, Owner: LoopKinds,
		Doc: "Whether the kind is in use as it is described here. One that clashes with another is not, on any peer."},
}

var kindGroups = []Group{
	{Path: "spec", Doc: "What is wanted. People write it."},
	{Path: "spec.fields", Doc: "The fields of the kind, a map by path: below spec those that people write, below status.loops.LOOP those that a loop writes."},
	{Path: "spec.fields.*", Key: KeyField, Doc: "One field."},
	{Path: "spec.rules", Doc: "What the fields alone can't say, a map by name. A spec that breaks a rule is refused where it is written; where a merge breaks one, the last valid spec goes on."},
	{Path: "spec.rules.*", Key: KeyName, Doc: "One rule."},
	{Path: "spec.steps", Doc: "The lifecycle of an object of the kind, a map by step. Each is done by a foreign loop, on the peer that hashing gives the object."},
	{Path: "spec.steps.*", Key: KeyName, Doc: "One step."},
	{Path: "spec.targets", Doc: "Points of the lifecycle that an object can be switched to, a map by name. The target ready, which requires every step, is there in any case."},
	{Path: "spec.targets.*", Key: KeyName, Doc: "One target."},
	{Path: "lifecycle", Doc: "Which point of its lifecycle the Kind is to be at."},
	{Path: "status", Doc: "What is. Loops write it, each its own fields."},
}
