package peer

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

// applicant is a Kind or a Step that wants to be part of the lifecycles.
type applicant struct {
	object *lifecycle.Object
	// born is the clock reading at its creation.
	born uint64
}

func (a applicant) ref() crdt.Ref { return crdt.Ref(a.object.Key) }

// registration is which Kinds and Steps fit, and what the kinds are with them. It depends
// on nothing but them: all peers that have the same ones come to the same. It is immutable
// once made.
type registration struct {
	catalog *api.Catalog
	kinds   map[string]composition
	misfits map[crdt.Ref]string
	claims  []claim
}

// claim is an outside resource, and who took it first.
type claim struct {
	lifecycle.Claim
	by string // the object that declares it; empty for a loop of the peer's own
}

// register looks at all Kinds, then at all Targets and Steps, the older before the newer: of two that
// clash the newer is left out, with the reason.
func register(builtin map[string]Kind, own map[string]ownKind, catalog *api.Catalog, all []applicant) *registration {
	r := &registration{catalog: catalog, kinds: map[string]composition{}, misfits: map[crdt.Ref]string{}}
	for _, name := range sortedKeys(builtin) {
		r.kinds[name] = composition{base: builtin[name], kind: builtin[name]}
		for _, c := range builtin[name].Graph.Describe().Claims {
			r.claims = append(r.claims, claim{Claim: c})
		}
	}
	slices.SortFunc(all, func(a, b applicant) int {
		return cmp.Or(cmp.Compare(turn(a), turn(b)), cmp.Compare(a.born, b.born), cmp.Compare(a.object.ID, b.object.ID))
	})
	for _, a := range all {
		why := ""
		switch {
		case a.object.Key.Kind == kindKind:
			why = r.addKind(a, own)
		case a.object.Deleted:
		case a.object.Key.Kind == kindTarget:
			why = r.addTarget(a)
		default:
			why = r.addStep(a)
		}
		if why != "" {
			r.misfits[a.ref()] = why
		}
	}
	for _, a := range all {
		if a.object.Key.Kind == kindStep && a.object.Deleted {
			r.retire(a)
		}
	}
	return r
}

// turn puts the Kinds first: Targets and Steps hook into what there is.
func turn(a applicant) int {
	if a.object.Key.Kind == kindKind {
		return 0
	}
	return 1
}

// addKind takes a Kind. The objects of one that clashes with an older Kind or with a loop
// are kept and shown, and wait.
func (r *registration) addKind(a applicant, all map[string]ownKind) (why string) {
	name := api.OwnKind(a.object.Key.Name)
	own, ok := all[name]
	if !ok {
		return "no kind can be called " + a.object.Key.Name + "; choose a name of lower case letters and digits that is not taken"
	}
	d := own.kind.Graph.Describe()
	why = own.fault
	if _, there := r.catalog.KindByName(name); !there {
		why = "" // it was deleted, and so were its objects
	} else if why == "" {
		why = r.check(a, name, own.table.Plural, d)
	}
	kind := own.kind
	if why != "" && own.fault == "" {
		kind = own.unfit(why)
	}
	c := composition{base: kind, kind: kind, signature: why}
	c.sign(a)
	r.kinds[name] = c
	return why
}

// check says what of a Kind clashes with what is there already.
func (r *registration) check(a applicant, name, plural string, d lifecycle.Description) string {
	if !a.object.Deleted {
		if why := r.checkPlural(name, plural); why != "" {
			return why
		}
	}
	if why := r.checkSteps(name, d.Nodes); why != "" {
		return why
	}
	return r.take(a, d.Claims)
}

// checkPlural refuses a plural that an older kind has as its name or plural.
func (r *registration) checkPlural(name, plural string) string {
	for _, k := range r.catalog.Kinds() {
		if _, older := r.kinds[k.Name]; older && k.Name != name && (strings.EqualFold(k.Plural, plural) || strings.EqualFold(k.Name, plural)) {
			return fmt.Sprintf("objects of kind %s are called %s already; choose another spec.plural", k.Name, plural)
		}
	}
	return ""
}

// checkSteps looks at what cannot be seen in one graph: whether the fields that steps read
// are there, and the kinds that they speak of.
func (r *registration) checkSteps(kind string, nodes []lifecycle.NodeDescription) string {
	managing := map[string]bool{}
	for _, n := range nodes {
		if n.Target || !strings.Contains(n.Name, ":") {
			continue
		}
		if why := r.checkReads(kind, n.Name, n.Reads, n.Consults); why != "" {
			return why
		}
		if why := r.checkChildren(n); why != "" {
			return why
		}
		if n.Children != "" && managing[n.Loop] {
			return fmt.Sprintf("loop %s has two steps with children in the lifecycle of a %s; let one step make all of them", n.Loop, kind)
		}
		managing[n.Loop] = managing[n.Loop] || n.Children != ""
	}
	return ""
}

// checkChildren: what a step may make says whose it is.
func (r *registration) checkChildren(n lifecycle.NodeDescription) string {
	if n.Children == "" {
		return ""
	}
	if _, ok := r.catalog.KindByName(n.Children); !ok {
		return fmt.Sprintf("step %s can't have children: %s", n.Name, r.catalog.Unknown(n.Children))
	}
	if _, ok := r.catalog.FieldOf(n.Children, parentID); !ok {
		return fmt.Sprintf("step %s can't have a %s as a child; pods can be children, and objects of kinds that people defined", n.Name, n.Children)
	}
	return ""
}

// derived are the roots of what is computed from other objects.
var derived = []string{"machine", "cluster", "children", "scaling", "probed", "routed"}

func (r *registration) checkReads(kind, step string, reads, consults []string) string {
	for _, path := range reads {
		if root, _, _ := strings.Cut(path, "."); slices.Contains(derived, root) {
			continue // it stands in no table
		}
		if why := r.catalog.CheckPattern(kind, path); why != "" {
			return fmt.Sprintf("step %s can't read %s: %s", step, path, why)
		}
	}
	for _, what := range consults {
		if _, ok := r.catalog.KindByName(what); !ok && what != "members" {
			return fmt.Sprintf("step %s can't consult %s: %s", step, what, r.catalog.Unknown(what))
		}
	}
	return ""
}

// take notes the claims of an applicant, or names the loop that has one of them.
func (r *registration) take(a applicant, claims []lifecycle.Claim) string {
	for _, c := range claims {
		for _, old := range r.claims {
			if c.Loop == old.Loop || !Clash(c.Resource, old.Resource) {
				continue
			}
			owner := "loop " + old.Loop
			if old.by != "" {
				owner += ", by " + old.by
			}
			return fmt.Sprintf("loop %s claims %s, and %s is claimed by %s; one resource has one owner", c.Loop, c.Resource, old.Resource, owner)
		}
	}
	for _, c := range claims {
		r.claims = append(r.claims, claim{c, a.object.Key.String()})
	}
	return ""
}

// Clash reports whether two claims are on the same thing, or one on a part of the other:
// "nftables:table/foo" holds "nftables:table/foo/input", and "pool:10.0.0.0/24" holds
// "pool:10.0.0.128/25".
func Clash(a, b string) bool {
	sortA, whatA, _ := strings.Cut(a, ":")
	sortB, whatB, _ := strings.Cut(b, ":")
	if sortA != sortB {
		return false
	}
	p, errA := netip.ParsePrefix(whatA)
	q, errB := netip.ParsePrefix(whatB)
	if errA == nil && errB == nil {
		return p.Overlaps(q)
	}
	return whatA == whatB || strings.HasPrefix(whatA, whatB+"/") || strings.HasPrefix(whatB, whatA+"/")
}

// addTarget takes a Target into the lifecycle of its kind, unless it does not fit.
func (r *registration) addTarget(a applicant) string {
	kind, t, err := loops.TargetOf(a.object.Key.Name, a.object.Fields)
	if err != nil {
		return err.Error()
	}
	c, ok := r.kinds[kind]
	if _, known := r.catalog.KindByName(kind); !ok || !known {
		return r.catalog.Unknown(kind)
	}
	if c.base.Compose == nil {
		return "nothing hooks into a " + kind
	}
	next := c
	next.targets = append(slices.Clone(c.targets), t)
	g, err := c.base.Compose(next.targets, foreignLoops(c.hooks))
	if err != nil {
		return err.Error()
	}
	next.kind.Graph = g
	if t.Goal {
		next.kind.Goal, next.kind.Validate = goalIn(g), atGoals(c.kind.Validate, t.Name)
		r.catalog = r.catalog.WithGoals(kind, t.Name)
	}
	next.sign(a)
	r.kinds[kind] = next
	return ""
}

// atGoals takes a target that the table of the kind does not know.
func atGoals(validate func(api.Fields) []api.Problem, goal string) func(api.Fields) []api.Problem {
	return func(f api.Fields) []api.Problem {
		if f.String(jobTarget) == goal {
			f = f.Clone()
			delete(f, jobTarget)
		}
		return validate(f)
	}
}

// addStep takes a Step into the lifecycle of its kind, unless it does not fit.
func (r *registration) addStep(a applicant) string {
	h, err := loops.HookOf(a.object.Key.Name, a.object.Fields)
	if err != nil {
		return err.Error()
	}
	c, ok := r.kinds[h.Kind]
	if _, known := r.catalog.KindByName(h.Kind); !ok || !known {
		return r.catalog.Unknown(h.Kind)
	}
	next, why := c.with(hook{h, a.born})
	if why == "" {
		why = r.checkSteps(h.Kind, next.kind.Graph.Describe().Nodes)
	}
	if why == "" {
		var claims []lifecycle.Claim
		for _, what := range h.Claims {
			claims = append(claims, lifecycle.Claim{Resource: what, Loop: h.Loop})
		}
		why = r.take(a, claims)
	}
	if why == "" {
		next.sign(a)
		r.kinds[h.Kind] = next
	}
	return why
}

// retire keeps the step of a Step that was deleted where nothing needs it any more, so
// that it is taken back: its loop is called for every object that has done it.
func (r *registration) retire(a applicant) {
	h, err := loops.HookOf(a.object.Key.Name, a.object.Fields)
	c, ok := r.kinds[h.Kind]
	if err != nil || !ok {
		return
	}
	h.Step.RequiredBy, h.Step.WantedBy, h.Step.Before, h.Claims = nil, nil, nil, nil
	if next, why := c.with(hook{h, a.born}); why == "" {
		next.sign(a)
		r.kinds[h.Kind] = next
	}
}

// with returns the composition with one more step, or why it does not fit.
func (c composition) with(h hook) (composition, string) {
	if _, taken := c.hooks[h.Step.Name]; taken {
		return c, "another Step already declares " + h.Step.Name + "; give this one another spec.step"
	}
	if c.base.Compose == nil {
		return c, "nothing hooks into a " + h.Kind
	}
	next := c
	next.hooks = map[string]hook{h.Step.Name: h}
	maps.Copy(next.hooks, c.hooks)
	g, err := c.base.Compose(c.targets, foreignLoops(next.hooks))
	if err != nil {
		return c, err.Error()
	}
	next.kind.Graph = g
	if h.Step.Children != "" {
		next.kind.Derive = withChildren(next.kind.Derive, h.Loop)
	}
	return next, ""
}

// withChildren adds to what a kind derives what a loop reads of its children.
func withChildren(derive func(*lifecycle.Object, loops.Surroundings) api.Fields, loop string) func(*lifecycle.Object, loops.Surroundings) api.Fields {
	return func(o *lifecycle.Object, v loops.Surroundings) api.Fields {
		fields := api.Fields{}
		if derive != nil {
			maps.Copy(fields, derive(o, v))
		}
		loops.DeriveForeign(o, v, loop, fields)
		return fields
	}
}

// sign notes a Step that is part of the composition, so that what stays the same is left
// alone.
func (c *composition) sign(a applicant) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s %s %v %d", c.signature, a.object.Key, a.object.ID, a.object.Deleted, a.born)
	for _, path := range a.object.Fields.Paths() {
		fmt.Fprintf(&b, " %s=%s", path, a.object.Fields[path])
	}
	c.signature = b.String() + "\n"
}
