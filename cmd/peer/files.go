package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

// stdinName is the name of the standard input as a file.
const stdinName = "-"

// specFile is one document and the name of its file.
type specFile struct {
	api.Spec
	file string
}

// readSpecs reads the documents of files, of directories, and of the standard input for
// "-". An object may stand in them once only: what counted of two would be anyone's guess.
func (c *cli) readSpecs(ctx context.Context, names []string) ([]specFile, error) {
	if len(names) == 0 {
		return nil, errors.New("name a file with -f, a directory, or - for the standard input")
	}
	var files []rawFile
	for _, name := range names {
		list, err := filesOf(name)
		if err != nil {
			return nil, err
		}
		for _, file := range list {
			f, err := c.readFile(file)
			if err != nil {
				return nil, err
			}
			files = append(files, f)
		}
	}
	kinds := c.kindsFor(ctx, files)
	var specs []specFile
	var err error
	for _, f := range files {
		if specs, err = f.parse(kinds, specs); err != nil {
			return nil, err
		}
	}
	return specs, nil
}

// rawFile is a file as it was read.
type rawFile struct {
	shown string
	data  []byte
}

func (c *cli) readFile(file string) (f rawFile, err error) {
	f.shown = file
	if file == stdinName {
		f.shown = "standard input"
		f.data, err = io.ReadAll(c.in)
	} else {
		f.data, err = os.ReadFile(file)
	}
	if err != nil {
		return f, fmt.Errorf("read specs: %w", err)
	}
	return f, nil
}

// kindsFor are the kinds that files speak of. The peer is asked only where they define
// and use others than the built-in ones.
func (c *cli) kindsFor(ctx context.Context, files []rawFile) *api.Catalog {
	defined := func(kinds *api.Catalog) *api.Catalog {
		for _, f := range files {
			kinds = kinds.WithKindsIn(f.data)
		}
		return kinds
	}
	kinds := defined(api.Builtin())
	for _, f := range files {
		if kinds.Lacks(f.data) {
			if all, err := c.catalog(ctx); err == nil {
				return defined(all)
			}
		}
	}
	return kinds
}

func (f rawFile) parse(kinds *api.Catalog, specs []specFile) ([]specFile, error) {
	shown := f.shown
	parsed, err := kinds.ParseYAML(shown, f.data)
	if err != nil {
		return nil, err
	}
	for _, p := range parsed {
		if i := slices.IndexFunc(specs, func(s specFile) bool { return s.Key == p.Key }); i >= 0 {
			return nil, fmt.Errorf("%s is in %s and in %s; leave one of them out", p.Key, specs[i].file, shown)
		}
		specs = append(specs, specFile{p, shown})
	}
	return specs, nil
}

// filesOf lists a directory's YAML and JSON files by name; another file is itself.
func filesOf(name string) ([]string, error) {
	if name == stdinName {
		return []string{name}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("read specs: %w", err)
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, fmt.Errorf("read specs: %w", err)
	}
	var files []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, ext) {
			files = append(files, filepath.Join(name, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("read specs: there is no .yaml, .yml or .json file in %s", name)
	}
	return files, nil
}

// applyEdits states each spec as a whole.
func applyEdits(specs []specFile) []*apiv1.Edit {
	var edits []*apiv1.Edit
	for _, s := range specs {
		edits = append(edits, &apiv1.Edit{Kind: apiv1.EditKind_EDIT_KIND_APPLY, Key: client.KeyTo(s.Key), Fields: s.Fields})
	}
	return edits
}

// noteOf is the author's note: the flag's, or those in the documents.
func noteOf(flag string, specs []specFile) string {
	var notes []string
	for _, s := range specs {
		if s.Note != "" && !slices.Contains(notes, s.Note) {
			notes = append(notes, s.Note)
		}
	}
	return cmp.Or(flag, strings.Join(notes, "; "))
}

// located finds the problems that a peer reported in the files that they come from.
func located(err error, specs []specFile) error {
	said := (*api.Error)(nil)
	if err = client.AsError(err); !errors.As(err, &said) || len(said.Problems) == 0 {
		return err
	}
	for _, s := range specs {
		if len(specs) == 1 || strings.HasPrefix(said.Message, s.Key.String()+" ") {
			found := *said
			found.Problems = s.Locate(said.Problems)
			return &found
		}
	}
	return err
}

// changed makes a change set.
func (c *cli) changed(ctx context.Context, message string, edits ...*apiv1.Edit) (*apiv1.ApplyResponse, error) {
	p, err := c.dial()
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return p.Apply(ctx, &apiv1.ApplyRequest{Edits: edits, Message: message, Author: c.author()})
}

// change makes a change set and prints what it did.
func (c *cli) change(ctx context.Context, message string, edits ...*apiv1.Edit) error {
	done, err := c.changed(ctx, message, edits...)
	if err != nil {
		return err
	}
	c.applied(done)
	return nil
}

func (c *cli) applied(a *apiv1.ApplyResponse) {
	c.print(c.style().Applied(a))
	c.note(c.style().Safety(a))
	c.view(a.GetView())
}
