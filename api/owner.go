package api

import "strings"

// Whose a field, a step's result and a spec are follows from names alone, so that a replica
// judges a change alike whatever else it has seen: the built-in kinds have their tables;
// in all others, people write spec and lifecycle, and a loop writes below status.loops
// and its name.

// OwnerOf returns the one writer of a field. A path with fields below it has an
// owner where all of them have the same. What no table declares is People's.
func OwnerOf(kind, path string) string {
	s := schemaOf(kind)
	if s != nil {
		if n := s.lookup(path); n != nil && !n.mixed {
			return n.owner
		}
	} else if path == parentPath || Below(path, parentPath) {
		return OwnerParent
	}
	if loop, ok := foreignOwner(path); ok {
		return loop
	}
	return People
}

// parentPath is where a child says whose it is.
const parentPath = "spec.parent"

// SpecOwner returns the loop that owns the spec of an object, by its kind and the
// author who created it: children belong to their parent's loop, everything else to
// People.
func SpecOwner(kind, creator string) string {
	loop, ok := strings.CutPrefix(creator, "loop:")
	if !ok {
		return People
	}
	if !builtinLoop(loop) && CheckName(loop) == nil {
		return loop
	}
	for i := range builtinKinds {
		if k := &builtinKinds[i]; k.Children == kind && k.Parent == loop {
			return loop
		}
	}
	return People
}

// StepOwner returns the loop that runs a step of the kind's lifecycle, People for a
// step that no table declares: then no loop may write its result.
func StepOwner(kind, step string) string {
	if loop, ok := foreignLoop(step); ok {
		return loop
	}
	if s := schemaOf(kind); s != nil {
		return s.steps[step]
	}
	return People
}
