package api

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxProblems is how many problems of a file are reported.
const maxProblems = 20

// Spec is what one document of a file asks for.
type Spec struct {
	Key Key
	// Fields holds the spec and, where the document gives it, the lifecycle,
	// normalized.
	Fields Fields
	// Note is the author's note on the change.
	Note string
	// Start is where the document begins.
	Start Position

	source *document
}

// Locate fills in where in the file problems of the spec's fields are, for problems
// that a peer found.
func (s Spec) Locate(problems []Problem) []Problem {
	if s.source == nil {
		return problems // not read from a file
	}
	return s.source.locate(slices.Clone(problems))
}

// ParseYAML reads the documents of a file, YAML or JSON. It is strict: whatever is
// not known, or not exactly right, is refused with its place and a remedy, and then
// nothing is returned. The name of the file is only used in messages.
func ParseYAML(file string, data []byte) ([]Spec, error) { return Builtin().ParseYAML(file, data) }

// ParseYAML reads documents of any kind of the catalog, and of the kinds that Kind
// objects in the file define.
func (c *Catalog) ParseYAML(file string, data []byte) ([]Spec, error) {
	if line, ok := badLine(data); ok {
		return nil, Errorf(SpecInvalid, "%s:%d: the line is not UTF-8 text; save the file as UTF-8", file, line)
	}
	var specs []Spec
	var problems []Problem
	docs := splitDocuments(file, string(data))
	for _, d := range docs {
		if size := d.size(); size > MaxSpec {
			return nil, Errorf(TooLarge, "%s:%d: the document has %d bytes, and the limit is %d; move large values into the image or a volume", file, d.line+1, size, MaxSpec)
		}
		d.found = d.parse()
	}
	c = c.withKindsOf(docs)
	for _, d := range docs {
		spec, found := Spec{}, d.found
		if found {
			spec = d.spec(c)
		}
		if found && len(d.problems) == 0 {
			d.checkTwice(spec, specs)
			specs = append(specs, spec)
		}
		problems = append(problems, d.problems...)
	}
	if len(problems) > 0 {
		return nil, invalid(file, problems)
	}
	if len(specs) == 0 {
		return nil, Errorf(SpecInvalid, "%s: there is no document in it; write one that begins with kind: and name:", file)
	}
	return specs, nil
}

// invalid is the error that lists problems in the order of the file.
func invalid(file string, problems []Problem) error {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.At.Line, b.At.Line), cmp.Compare(a.At.Column, b.At.Column))
	})
	count, shown := "1 problem", ""
	if n := len(problems); n > 1 {
		count = strconv.Itoa(n) + " problems"
	}
	if len(problems) > maxProblems {
		problems, shown = problems[:maxProblems], fmt.Sprintf(" (the first %d are shown)", maxProblems)
	}
	return &Error{Code: SpecInvalid, Message: fmt.Sprintf("%s has %s%s; nothing was changed", file, count, shown), Problems: problems}
}

func badLine(data []byte) (line int, bad bool) {
	if utf8.Valid(data) {
		return 0, false
	}
	for text := range bytes.Lines(data) {
		if line++; !utf8.Valid(text) {
			break
		}
	}
	return line, true
}

// splitDocuments cuts a file at the lines that begin with "---", which can stand
// nowhere else in YAML. Each document is parsed alone, so that one with a fault does
// not hide the others', and none is larger than a spec may be.
func splitDocuments(file, text string) []*document {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	docs := []*document{newDocument(file, 0)}
	for i, line := range strings.Split(text, "\n") {
		if rest, ok := strings.CutPrefix(line, "---"); ok && (rest == "" || rest[0] == ' ' || rest[0] == '\t') {
			docs = append(docs, newDocument(file, i))
			line = "   " + rest // columns stay what they are
		}
		d := docs[len(docs)-1]
		d.lines = append(d.lines, line)
	}
	return docs
}

func newDocument(file string, line int) *document {
	return &document{file: file, line: line, fields: Fields{}, keys: map[string]Position{}, values: map[string]Position{}}
}

func (d *document) size() int {
	n := 0
	for _, line := range d.lines {
		n += len(line) + 1
	}
	return n
}

// parse flattens the document; it is false for one that holds nothing but comments, and
// for one that can't be read.
func (d *document) parse() (found bool) {
	body, ok := d.body()
	if !ok || body == nil {
		return false
	}
	if _, ok := body.(ast.MapNode); !ok || isAlias(body) {
		d.fault(body.GetToken(), "", "a document is a map; begin it with kind: and name:")
		return false
	}
	d.flatten("", body, 0)
	return true
}

// WithKindsIn returns the catalog with the kinds that a file defines, as far as it can be
// read: for the other files of one apply.
func (c *Catalog) WithKindsIn(data []byte) *Catalog {
	docs := splitDocuments("", string(data))
	for _, d := range docs {
		d.found = utf8.Valid(data) && d.size() <= MaxSpec && d.parse()
	}
	return c.withKindsOf(docs)
}

// Lacks reports whether a file has objects of kinds that are not in the catalog, or that are
// to be at targets that are not.
func (c *Catalog) Lacks(data []byte) bool {
	for _, d := range splitDocuments("", string(data)) {
		if !utf8.Valid(data) || d.size() > MaxSpec || !d.parse() {
			continue
		}
		k, ok := c.KindByName(d.fields.String("kind"))
		if f, _ := c.FieldOf(k.Name, fieldTarget); !ok || d.fields.Has(fieldTarget) && !slices.Contains(f.Enum, d.fields.String(fieldTarget)) {
			return true
		}
	}
	return false
}

func (c *Catalog) withKindsOf(docs []*document) *Catalog {
	var kinds []Kind
	for _, d := range docs {
		if d.found && strings.EqualFold(d.fields.String("kind"), kindKind.Name) {
			if k, ok := DefineKind(d.fields.String("name"), d.fields); ok {
				kinds = append(kinds, k)
			}
		}
	}
	if len(kinds) > 0 {
		c = c.With(kinds...)
	}
	for _, d := range docs {
		if d.found && strings.EqualFold(d.fields.String("kind"), targetKind.Name) {
			c = c.WithTarget(d.fields.String("name"), d.fields)
		}
	}
	return c
}

// body runs the YAML parser. The parser is not ours: should it panic on some input,
// that input is refused and nothing else suffers.
func (d *document) body() (body ast.Node, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			d.fault(nil, "", "the document can't be read as YAML")
			body, ok = nil, false
		}
	}()
	if line, deep := tooDeep(d.lines); deep {
		d.fault(&token.Token{Position: &token.Position{Line: line + 1, Column: 1}}, "", "this is nested too deeply")
		return nil, false
	}
	file, err := parser.ParseBytes([]byte(strings.Join(d.lines, "\n")), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.syntaxFault(err)
		return nil, false
	}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			d.fault(doc.Body.GetToken(), "", "another document begins here; put a line with --- before it")
			return nil, false
		}
		body = doc.Body
	}
	return body, true
}

// tooDeep finds a line that opens so many brackets or list entries that parsing them
// by recursion would be dangerous. Text that merely looks like that is refused too.
func tooDeep(lines []string) (line int, deep bool) {
	const limit = 200
	open := 0
	for i, text := range lines {
		entries := 0
		for _, c := range []byte(text) {
			switch c {
			case '[', '{':
				open++
			case ']', '}':
				open = max(0, open-1)
			}
			if strings.IndexByte("-? ", c) < 0 {
				entries = 0
			} else {
				entries++
			}
			if open > limit || entries > 2*limit {
				return i, true
			}
		}
	}
	return 0, false
}

func (d *document) syntaxFault(err error) {
	var at interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if !errors.As(err, &at) {
		d.fault(nil, "", "the document can't be read as YAML: "+err.Error())
		return
	}
	d.fault(at.GetToken(), "", "this is not YAML: "+at.GetMessage())
}

// checkTwice refuses a file that names one object twice.
func (d *document) checkTwice(spec Spec, before []Spec) {
	for _, b := range before {
		if b.Key == spec.Key {
			d.problems = append(d.problems, Problem{
				Message: fmt.Sprintf("%s is in this file twice; the first begins in line %d", spec.Key, b.Start.Line),
				At:      spec.Start,
			})
			return
		}
	}
}

func lineOf(p Position) string { return strconv.Itoa(p.Line) }
