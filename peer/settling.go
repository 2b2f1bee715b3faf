package peer

import (
	"slices"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
)

// settling are the fields that an edit states as they are, and that people wrote differently
// in two parts of a cluster that was cut. They are written once more: who states one of the
// two values has decided, and whoever looks finds no conflict any more.
func settling(edit Edit, old *crdt.Object, current api.Fields, edits []api.Edit) []api.Edit {
	if api.SpecOwner(edit.Key.Kind, old.Creator()) != api.People {
		return nil // its loop settles that
	}
	var again []api.Edit
	for _, c := range old.Conflicts() {
		_, named := edit.Fields[c.Path]
		named = named || slices.Contains(edit.Unset, c.Path) || edit.Kind == EditApply && api.Below(c.Path, "spec")
		if named && !slices.ContainsFunc(edits, func(e api.Edit) bool { return e.Path == c.Path }) {
			again = append(again, api.Edit{Path: c.Path, Old: current[c.Path], New: current[c.Path]})
		}
	}
	return again
}
