package api

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits of a kind of people's own: each costs every peer.
const (
	maxOwnFields = 200
	maxOwnRules  = 50
	maxOwnSteps  = 20
	// MaxCheck is how long the expression of a rule may be.
	MaxCheck = 1000
	// minEvery: what is done more often is work, not a look.
	minEvery = time.Second
)

// kindRules checks what the table of Kinds can't say. Whether the expressions of rules are
// CEL, and whether the lifecycle holds together, is judged where that can be: by a peer.
func kindRules(f Fields, add addFunc) {
	if s := f.String("spec.plural"); f.Has("spec.plural") {
		if OwnKind(s) == "" || strings.ToLower(s) != s {
			add("spec.plural", "%q can't be a plural: use lower case letters and digits, with a letter first", s)
		} else if k, taken := KindByName(s); taken {
			add("spec.plural", "%q is what objects of the kind %s are called; choose another", s, k.Name)
		}
	}
	for _, limit := range []struct {
		path string
		most int
	}{{"spec.fields", maxOwnFields}, {"spec.rules", maxOwnRules}, {"spec.steps", maxOwnSteps}, {"spec.targets", maxOwnSteps}} {
		if n := len(f.Keys(limit.path)); n > limit.most {
			add(limit.path, "there are %d, and the most is %d", n, limit.most)
		}
	}
	fieldRules(f, add)
	for _, name := range f.Keys("spec.rules") {
		at := Child("spec.rules", name)
		if n := len(f.String(at + ".check")); n > MaxCheck {
			add(at+".check", "the expression has %d characters, and the most is %d", n, MaxCheck)
		}
		knownField(f, at+".field", f.String(at+".field"), add)
	}
	for _, c := range f.Strings("spec.columns") {
		if f.Has("spec.columns") {
			knownColumn(f, c, add)
		}
	}
	for _, name := range f.Keys("spec.steps") {
		ownStepRules(f, Child("spec.steps", name), add)
	}
}

func fieldRules(f Fields, add addFunc) {
	paths := f.Keys("spec.fields")
	for i, path := range paths {
		at := Child("spec.fields", path)
		for _, other := range paths[:i] {
			if Overlap(other, path) {
				add(at, "%s is a field already, and a field has no fields below it", other)
			}
		}
		field, ok := ownField(path, f)
		if !ok {
			continue // reported already
		}
		if owner := f.String(at + ".owner"); f.Has(at+".owner") && owner != ownerWord(field.Owner) {
			add(at+".owner", "%s belongs to %s by its path; write that, or leave the owner out", path, ownerWord(field.Owner))
		}
		if len(field.Enum) > 0 && field.Type != TypeString {
			add(at+".enum", "only a string has a list of values, and this is %s", article(string(field.Type)))
		}
		if raw := f[at+".default"]; raw != "" {
			if _, err := field.normalize(raw); err != nil {
				add(at+".default", "%v", err)
			}
		}
		if field.Owner != People && (field.Required || f.Has(at+".default")) {
			add(at, "a loop writes %s, so that it can't be required of people nor have a default", path)
		}
	}
}

// ownerWord is how a Kind writes an owner.
func ownerWord(owner string) string {
	if owner == People {
		return "people"
	}
	return owner
}

func knownField(f Fields, at, path string, add addFunc) {
	if paths := f.Keys("spec.fields"); f.Has(at) && !slices.Contains(paths, path) {
		add(at, "%q is not among spec.fields%s", path, didYouMean(path, paths))
	}
}

func knownColumn(f Fields, path string, add addFunc) {
	paths := f.Keys("spec.fields")
	if !slices.ContainsFunc(paths, func(p string) bool { return p == path || Match(p, path) }) || strings.Contains(path, "*") {
		add("spec.columns", "%q is not one of spec.fields%s", path, didYouMean(path, paths))
	}
}

func ownStepRules(f Fields, at string, add addFunc) {
	loop := f.String(at + ".loop")
	if err := CheckName(loop); f.Has(at+".loop") && err != nil {
		add(at+".loop", "%v", err)
	}
	if builtinLoop(loop) {
		add(at+".loop", "%q is a loop of the peer itself; choose another name", loop)
	}
	durationRange(f, at+".every", minEvery, maxGrace, add)
	entriesRange(f, at+".entries", add)
	foreignOutputs(f, at+".outputs", "", loop, add)
	foreignClaims(f, at+".claims", add)
}

// foreignOutputs: a foreign loop writes below its own name.
func foreignOutputs(f Fields, at, kind, loop string, add addFunc) {
	for _, out := range f.Strings(at) {
		if own := ForeignStatus(loop); out != own && !Below(out, own) {
			add(at, "%s%s; loop %s writes below %s", out, belongsTo(kind, out), loop, own)
		}
	}
}

func belongsTo(kind, path string) string {
	if owner := OwnerOf(kind, path); owner != People {
		return " belongs to loop " + owner
	}
	return " is not the loop's to write"
}

// foreignClaims: a claim says what sort of resource it is, and which.
func foreignClaims(f Fields, at string, add addFunc) {
	for _, claim := range f.Strings(at) {
		if err := CheckClaim(claim); err != nil {
			add(at, "%v", err)
		}
	}
}

// CheckClaim returns why a string is no claim on an outside resource.
func CheckClaim(claim string) error {
	sort, what, ok := strings.Cut(claim, ":")
	if !ok || sort == "" || what == "" || strings.ContainsAny(claim, " \t\n") {
		return fmt.Errorf("%q is no claim; write SORT:WHAT, as in nftables:table/audit or pool:10.0.0.0/24", claim)
	}
	return nil
}

// checkKindName says why a Kind can't have its name: the kind is called by it.
func checkKindName(k Key) string {
	if k.Kind != kindKind.Name {
		return ""
	}
	if taken, ok := KindByName(k.Name); ok {
		return "there is a kind " + taken.Name + " already; choose another name"
	}
	if OwnKind(k.Name) == "" || strings.ToLower(k.Name) != k.Name {
		return fmt.Sprintf("%q can't be the name of a kind: a Kind is called in lower case letters and digits, with a letter first, at most %d", k.Name, maxKindName)
	}
	return ""
}
