package api

import (
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// document is one YAML document on its way to a Spec. It is first flattened without
// regard to any kind, so that what follows is the same for YAML, JSON and fields.
type document struct {
	file     string
	line     int      // of the file's lines before this document
	lines    []string // of the document
	fields   Fields
	keys     map[string]Position // where a path's last key is written
	values   map[string]Position // where a path's value begins
	problems []Problem
	found    bool // there is something in it
}

// maxDepth bounds how deep maps and lists may be nested. No table comes near.
const maxDepth = 32

// position turns the place of a token into one of the file.
func (d *document) position(tk *token.Token) Position {
	p := Position{File: d.file, Line: d.line + 1, Column: 1}
	if tk != nil && tk.Position != nil {
		p.Line, p.Column = d.line+tk.Position.Line, tk.Position.Column
	}
	if i := p.Line - d.line - 1; i >= 0 && i < len(d.lines) {
		p.Source = d.lines[i]
	}
	return p
}

func (d *document) fault(tk *token.Token, path, message string) {
	d.problems = append(d.problems, Problem{Path: path, Message: message, At: d.position(tk)})
}

// locate fills in where problems are; what is not written anywhere is found at the
// nearest path above.
func (d *document) locate(problems []Problem) []Problem {
	for i := range problems {
		p := &problems[i]
		if at, ok := d.values[p.Path]; ok && !p.onKey {
			p.At = at
			continue
		}
		p.At = d.nearest(p.Path)
	}
	return problems
}

func (d *document) nearest(path string) Position {
	segments, err := Split(path)
	for n := len(segments); err == nil && n > 0; n-- {
		if at, ok := d.keys[Join(segments[:n]...)]; ok {
			return at
		}
	}
	return d.position(nil)
}

// flatten walks the tree below path.
func (d *document) flatten(path string, n ast.Node, depth int) {
	if depth > maxDepth {
		d.fault(n.GetToken(), path, "this is nested too deeply")
		return
	}
	if m, ok := n.(ast.MapNode); ok && !isAlias(n) {
		d.flattenMap(path, m, n.GetToken(), depth)
		return
	}
	if n != nil {
		d.values[path] = d.position(n.GetToken())
	}
	if text, ok := d.value(path, n, depth); ok {
		d.fields[path] = text
	}
}

func isAlias(n ast.Node) bool {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		return true
	}
	return false
}

func (d *document) flattenMap(path string, m ast.MapNode, start *token.Token, depth int) {
	empty := true
	seen := map[string]bool{}
	for it := m.MapRange(); it.Next(); empty = false {
		key, ok := d.key(path, it.Key())
		if !ok {
			continue
		}
		at := Child(path, key)
		if seen[key] {
			d.fault(it.Key().GetToken(), at, "this is written twice; the first is in line "+lineOf(d.keys[at]))
			continue
		}
		seen[key] = true
		d.keys[at] = d.position(it.Key().GetToken())
		d.flatten(at, it.Value(), depth+1)
	}
	if empty && path != "" {
		d.values[path], d.fields[path] = d.position(start), emptyMap
	}
}

// key reads a key as text; a number or a truth value is taken as it is written.
func (d *document) key(path string, n ast.MapKeyNode) (string, bool) {
	switch k := n.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return n.GetToken().Value, true
	case *ast.MergeKeyNode:
		d.fault(n.GetToken(), path, "merge keys are not supported; write the fields out")
	default:
		d.fault(n.GetToken(), path, "write the key as plain text")
	}
	return "", false
}

// value is the JSON text of a value that is not a map. A number is taken as it is
// written, also where that is no JSON: the field's type judges it.
func (d *document) value(path string, n ast.Node, depth int) (string, bool) {
	switch v := n.(type) {
	case nil, *ast.NullNode:
		return "null", true
	case *ast.StringNode:
		return Str(v.Value), true
	case *ast.LiteralNode:
		return Str(v.Value.Value), true
	case *ast.BoolNode:
		return Bool(v.Value), true
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	case *ast.SequenceNode:
		return d.list(path, v, depth)
	}
	d.fault(n.GetToken(), path, "anchors, aliases and tags are not supported; write the value out")
	return "", false
}

func (d *document) list(path string, n *ast.SequenceNode, depth int) (string, bool) {
	if depth > maxDepth {
		d.fault(n.GetToken(), path, "this is nested too deeply")
		return "", false
	}
	var b strings.Builder
	b.WriteByte('[')
	for i, item := range n.Values {
		text, ok := emptyMap, true
		if _, isMap := item.(ast.MapNode); !isMap || isAlias(item) {
			text, ok = d.value(path, item, depth+1)
		}
		if !ok {
			return "", false
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(text)
	}
	b.WriteByte(']')
	return b.String(), true
}
