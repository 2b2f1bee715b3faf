package api

import (
	"slices"
	"strings"
)

// Edit is one field that differs. Old or New is empty where the field is absent;
// no canonical value is.
type Edit struct {
	Path, Old, New string
}

// Diff lists the fields that differ, sorted by path.
func Diff(old, new Fields) []Edit {
	var edits []Edit
	for path, v := range old {
		if new[path] != v {
			edits = append(edits, Edit{Path: path, Old: v, New: new[path]})
		}
	}
	for path, v := range new {
		if _, ok := old[path]; !ok {
			edits = append(edits, Edit{Path: path, New: v})
		}
	}
	slices.SortFunc(edits, func(a, b Edit) int { return strings.Compare(a.Path, b.Path) })
	return edits
}

// EditsForApply lists what turns current into wanted. An apply states the whole
// spec, so that a field of the spec that it does not name is unset. Of the
// lifecycle it changes only what it names: the target and the restart counter are
// switched by commands of their own. Fields of loops are left alone.
func EditsForApply(current, wanted Fields) []Edit {
	return slices.DeleteFunc(Diff(current, wanted), func(e Edit) bool {
		if Below(e.Path, "spec") {
			return false
		}
		return !Below(e.Path, "lifecycle") || e.New == ""
	})
}
