package api

import (
	"fmt"
	"slices"
	"strings"
)

// maxKindName is how long the name of a kind may be.
const maxKindName = 40

// OwnKind is how a kind that people define is spelled in objects: the name of its Kind
// with a capital; "" for what can't be the name of a Kind.
func OwnKind(name string) string {
	name = strings.ToLower(name)
	if name == "" || len(name) > maxKindName || !isLower(name[0]) {
		return ""
	}
	for i := range len(name) {
		if !isLower(name[i]) && !isDigit(name[i]) {
			return ""
		}
	}
	return string(name[0]-'a'+'A') + name[1:]
}

// KindObject is the key of the Kind that defines a kind.
func KindObject(kind string) Key { return Key{Kind: kindKind.Name, Name: strings.ToLower(kind)} }

// DefineKind makes the table of the kind that a Kind object defines. What of it is not
// valid, which merges may bring about, is left out; it is false for a name that no kind
// can have.
func DefineKind(name string, f Fields) (Kind, bool) {
	k := Kind{Name: OwnKind(name), Namespaced: true, Own: true, Doc: f.String("spec.doc"), Plural: f.String("spec.plural")}
	if _, taken := KindByName(name); taken || k.Name == "" {
		return Kind{}, false
	}
	if k.Plural == "" {
		k.Plural = name + "s"
	}
	for _, path := range f.Keys("spec.fields") {
		if field, ok := ownField(path, f); ok && !clashesBelow(path, k.Fields) {
			k.Fields = append(k.Fields, field)
		}
	}
	// People's fields first, as in the built-in tables.
	slices.SortStableFunc(k.Fields, func(a, b Field) int { return boolOrder(a.Owner != People, b.Owner != People) })
	k.Groups = ownGroups(k.Fields)
	loops := slices.IndexFunc(k.Fields, func(f Field) bool { return f.Owner != People })
	if loops < 0 {
		loops = len(k.Fields)
	}
	k.Fields = slices.Concat(k.Fields[:loops], ownCommon(f), k.Fields[loops:])
	for _, c := range f.Strings("spec.columns") {
		if checkFieldPath(c) == nil {
			k.Columns = append(k.Columns, c)
		}
	}
	return k, true
}

func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// clashesBelow reports whether a field would stand below another, or above.
func clashesBelow(path string, fields []Field) bool {
	return slices.ContainsFunc(fields, func(f Field) bool { return Overlap(f.Path, path) })
}

func ownField(path string, f Fields) (Field, bool) {
	at := Child("spec.fields", path)
	field := Field{
		Path: path, Type: Type(f.String(at + ".type")), Unit: f.String(at + ".unit"), Doc: f.String(at + ".doc"),
		Required: f.Bool(at + ".required"), Enum: f.Strings(at + ".enum"),
	}
	if checkFieldPath(path) != nil || field.Type == "" {
		return Field{}, false
	}
	field.Owner = OwnerOf("", path)
	if raw, ok := f[at+".default"]; ok {
		field.Default, _ = field.normalize(raw)
	}
	return field, true
}

// ownCommon are the fields that every kind of people's own has.
func ownCommon(f Fields) []Field {
	goals := OwnGoals(f)
	return []Field{
		{Path: "spec.parent.object", Type: TypeString, Owner: OwnerParent, Doc: "The object whose loop made this one and owns its spec; edit that one."},
		{Path: "spec.parent.id", Type: TypeString, Owner: OwnerParent, Doc: "The identity of that object."},
		{Path: "spec.parent.slot", Type: TypeInt, Owner: OwnerParent, Doc: "Which of that object's children this is, counted from 0."},
		{Path: "lifecycle.target", Type: TypeString, Default: Str(TargetReady), Enum: goals, Doc: "The target that the object is to reach. `peer switch` writes it."},
		{Path: "lifecycle.from", Type: TypeString, Doc: "The target at which the object was last at rest: a switch that is cancelled returns there. `peer switch` writes it."},
		{Path: "lifecycle.mode", Type: TypeString, Enum: switchModes, Doc: "What another switch may do while this one is under way; replace where this is not given. `peer switch --mode` writes it."},
		{Path: "lifecycle.skip", Type: TypeStrings, Doc: "Steps that are passed over on the way to the target. `peer switch --skip` writes it."},
	}
}

// OwnGoals are the targets that objects of a kind of people's own can be switched to.
func OwnGoals(f Fields) []string {
	goals := []string{TargetReady}
	for _, t := range f.Keys("spec.targets") {
		if goal := Child("spec.targets", t) + ".goal"; t != TargetReady && (!f.Has(goal) || f.Bool(goal)) {
			goals = append(goals, t)
		}
	}
	return goals
}

// ownGroups documents the maps among the fields: each takes names as keys.
func ownGroups(fields []Field) []Group {
	groups := []Group{
		{Path: "spec", Doc: "What is wanted. People write it; of an object that has a parent, the parent's loop does."},
		{Path: "spec.parent", Doc: "What the object belongs to, written once by the loop that made it."},
		{Path: "lifecycle", Doc: "Which point of its lifecycle the object is to be at."},
		{Path: "status", Doc: "What is. Loops write it, each below its own name."},
	}
	for _, f := range fields {
		for i := range len(f.Path) {
			if strings.HasPrefix(f.Path[i:], "*") {
				groups = append(groups, Group{Path: f.Path[:i+1], Key: KeyName})
			}
		}
	}
	return groups
}

// checkFieldPath returns why a path can't be that of a field of a kind of people's own.
func checkFieldPath(path string) error {
	segments, err := Split(path)
	switch {
	case err != nil:
		return err
	case segments[0] == "lifecycle":
		return fmt.Errorf("every kind has the same fields below lifecycle, and no more; define fields below spec")
	case len(segments) < 2 || segments[0] != "spec" && segments[0] != "status":
		return fmt.Errorf("%q is no path of a field; write one as in spec.size, or status.loops.LOOP.size for what a loop writes", path)
	case path == parentPath || Below(path, parentPath):
		return fmt.Errorf("spec.parent is there in every kind; leave it out")
	case segments[0] == "status" && (len(segments) < 4 || OwnerOf("", path) == People):
		return fmt.Errorf("%q is in the status, which loops write, each below its own name; write it as in status.loops.LOOP.size", path)
	}
	for i, seg := range segments[1:] {
		if seg != "*" && !isFieldName(seg) && (segments[0] != "status" || i != 1) {
			return fmt.Errorf("%q in %q is no name of a field: use letters and digits, with a lower case letter first, or * for a key of a map", seg, path)
		}
	}
	if segments[1] == "*" || segments[len(segments)-1] == "*" && len(segments) == 2 {
		return fmt.Errorf("%q would make a map of all of %s; give it a name, as in spec.labels.*", path, segments[0])
	}
	return nil
}

func isFieldName(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isLower(c) && (i == 0 || !isDigit(c) && (c < 'A' || c > 'Z')) {
			return false
		}
	}
	return len(s) > 0 && len(s) <= 63
}
