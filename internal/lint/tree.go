package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Module is the module's path.
const Module = "starling.dev/starling"

// Tree is the module as the rules see it, with slash-separated paths from its root.
type Tree struct {
	fset  *token.FileSet
	Files []*File // Go files, by path
	Texts []Text  // every text file, Go files among them, by path
	names map[string]bool
}

// File is a Go file of a package.
type File struct {
	Path      string
	Syntax    *ast.File
	Lines     int
	Generated bool
}

// Text is a file that people read.
type Text struct {
	Path string
	Body string
}

// Package is the directory of the file.
func (f *File) Package() string { return path.Dir(f.Path) }

// Test reports whether the file is compiled for tests only.
func (f *File) Test() bool { return strings.HasSuffix(f.Path, "_test.go") }

// Load reads the module whose root fsys is. What a program made (bin) and what no person
// wrote (.git, .vagrant) is left out; Go files in testdata are text only.
func Load(fsys fs.FS) (*Tree, error) {
	t := &Tree{fset: token.NewFileSet(), names: map[string]bool{}}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".git" && !d.IsDir():
			return nil // a worktree's pointer to the repository
		case d.IsDir() && slices.Contains([]string{".git", ".vagrant", "bin"}, name):
			return fs.SkipDir
		}
		t.names[name] = true
		if d.IsDir() {
			return nil
		}
		return t.read(fsys, name)
	})
	if err != nil {
		return nil, fmt.Errorf("read the module: %w", err)
	}
	return t, nil
}

func (t *Tree) read(fsys fs.FS, name string) error {
	raw, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	if bytes.IndexByte(raw, 0) >= 0 || !utf8.Valid(raw) {
		return nil
	}
	t.Texts = append(t.Texts, Text{Path: name, Body: string(raw)})
	if !strings.HasSuffix(name, ".go") || slices.Contains(strings.Split(path.Dir(name), "/"), "testdata") {
		return nil
	}
	syntax, err := parser.ParseFile(t.fset, name, raw, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	t.Files = append(t.Files, &File{
		Path: name, Syntax: syntax, Lines: bytes.Count(raw, []byte("\n")), Generated: ast.IsGenerated(syntax),
	})
	return nil
}

// at is a problem at a place in a Go file.
func (t *Tree) at(pos token.Pos, format string, args ...any) string {
	p := t.fset.Position(pos)
	return fmt.Sprintf("%s:%d: %s", p.Filename, p.Line, fmt.Sprintf(format, args...))
}
