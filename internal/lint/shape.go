package lint

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"slices"
)

// Limits of what a person can hold in mind at once.
const (
	MaxFileLines     = 400
	MaxFunctionLines = 70
)

// CheckShape looks for files and functions that have grown too long, and for packages
// that don't say what they are.
func (t *Tree) CheckShape() (problems []string) {
	for _, f := range t.Files {
		if f.Generated {
			continue
		}
		if f.Lines > MaxFileLines {
			problems = append(problems, fmt.Sprintf("%s:%d: the file is longer than %d lines; split it", f.Path, f.Lines, MaxFileLines))
		}
		problems = append(problems, t.longFunctions(f)...)
	}
	return append(problems, t.undocumented()...)
}

// undocumented are the packages without a doc.go. One of a single file may say there
// what it is.
func (t *Tree) undocumented() (problems []string) {
	files := map[string]int{}
	for _, f := range t.Files {
		if !f.Test() && !f.Generated {
			files[f.Package()]++
		}
	}
	documented := map[string]bool{}
	for _, f := range t.Files {
		if f.Syntax.Doc != nil && (path.Base(f.Path) == "doc.go" || files[f.Package()] == 1) {
			documented[f.Package()] = true
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(files)) {
		if !documented[pkg] {
			problems = append(problems, pkg+": the package has no doc.go with a comment for newcomers")
		}
	}
	return problems
}

func (t *Tree) longFunctions(f *File) (problems []string) {
	for _, decl := range f.Syntax.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		lines := t.fset.Position(fn.End()).Line - t.fset.Position(fn.Pos()).Line + 1
		if lines > MaxFunctionLines {
			problems = append(problems, t.at(fn.Pos(), "%s has %d lines; more than %d are too many", fn.Name.Name, lines, MaxFunctionLines))
		}
	}
	return problems
}
