package api

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// Render writes an object as YAML, its fields in the table's order, such that
// ParseYAML gives the same fields back. Fields that loops own follow as a comment,
// so that what was rendered can be edited and applied.
func Render(k Key, f Fields) []byte { return Builtin().Render(k, f) }

// Render writes an object of any kind of the catalog.
func (c *Catalog) Render(k Key, f Fields) []byte {
	w := &yamlWriter{}
	w.line(0, "kind: "+k.Kind)
	w.line(0, "name: "+scalar(k.Name))
	if k.Namespace != "" && k.Namespace != DefaultNamespace {
		w.line(0, "namespace: "+scalar(k.Namespace))
	}
	var root *node
	if s := c.schemas[k.Kind]; s != nil {
		root = s.root
	}
	people, loops := f.byOwner(k.Kind)
	w.members(0, root, ToTree(people))
	if len(loops) > 0 {
		w.prefix = "# "
		w.members(0, root, ToTree(loops))
	}
	return w.b.Bytes()
}

// byOwner parts the fields of people from those of loops.
func (f Fields) byOwner(kind string) (people, loops Fields) {
	people, loops = Fields{}, Fields{}
	for path, v := range f {
		if OwnerOf(kind, path) == People && !Below(path, "status") {
			people[path] = v
		} else {
			loops[path] = v
		}
	}
	return people, loops
}

type yamlWriter struct {
	b      bytes.Buffer
	prefix string
}

func (w *yamlWriter) line(depth int, text string) {
	w.b.WriteString(w.prefix)
	for range depth {
		w.b.WriteString("  ")
	}
	w.b.WriteString(text)
	w.b.WriteByte('\n')
}

// members writes the members of a map, one below the other.
func (w *yamlWriter) members(depth int, n *node, tree map[string]any) {
	for _, key := range n.sortKeys(tree) {
		var below *node
		if n != nil {
			below = n.child(escape(key))
		}
		if m, ok := tree[key].(map[string]any); ok {
			w.line(depth, scalar(key)+":")
			w.members(depth+1, below, m)
			continue
		}
		w.value(depth, scalar(key)+": ", below, tree[key])
	}
}

// sortKeys puts the keys of a map in the table's order, and those that it does not
// name behind, by name.
func (n *node) sortKeys(tree map[string]any) []string {
	var ordered, others []string
	if n != nil {
		for _, c := range n.children {
			if _, ok := tree[c.name]; ok && c.name != "*" {
				ordered = append(ordered, c.name)
			}
		}
	}
	for key := range tree {
		if !slices.Contains(ordered, key) {
			others = append(others, key)
		}
	}
	slices.Sort(others)
	return append(ordered, others...)
}

// value writes one field; head is its key and the colon.
func (w *yamlWriter) value(depth int, head string, n *node, v any) {
	switch v := v.(type) {
	case string:
		if n != nil && n.field != nil && n.field.plainText(v) {
			w.line(depth, head+v)
			return
		}
		if strings.Contains(v, "\n") && isBlock(v) {
			w.block(depth, head, v)
			return
		}
		w.line(depth, head+scalar(v))
	case []any:
		w.list(depth, head, v)
	default:
		w.line(depth, head+inline(v))
	}
}

// plainText reports whether a value needs no quotes because of its field's type: an
// amount of cpu may look like a number.
func (f *Field) plainText(v string) bool {
	switch f.Type {
	case TypeCPU, TypeBytes, TypeDuration:
		_, err := f.normalize(Str(v))
		return err == nil
	}
	return false
}

// maxFlow is how long a list may be in one line.
const maxFlow = 76

// list writes a list in one line where it fits, else an item a line.
func (w *yamlWriter) list(depth int, head string, items []any) {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = inline(item)
	}
	flow := "[" + strings.Join(texts, ", ") + "]"
	if len(head)+len(flow)+2*depth <= maxFlow || len(items) == 0 {
		w.line(depth, head+flow)
		return
	}
	w.line(depth, strings.TrimSuffix(head, " "))
	for _, text := range texts {
		w.line(depth, "- "+text)
	}
}

// inline writes any value within a line.
func inline(v any) string {
	if s, ok := v.(string); ok {
		return scalar(s)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("unreachable: the value was decoded from JSON: " + err.Error())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// plainScalar matches strings that stand for themselves anywhere in YAML: they begin
// like a word, an option or a path, and hold nothing that could end them.
var plainScalar = regexp.MustCompile(`^(--?[A-Za-z]|[A-Za-z/])[A-Za-z0-9_./@+=-]*(:[A-Za-z0-9_./@+=-]+)*$`)

// scalar writes a string plainly if no reader of YAML, old or new, can take it for
// anything else, and in JSON's quotes otherwise.
func scalar(s string) string {
	if !plainScalar.MatchString(s) {
		return Str(s)
	}
	switch strings.ToLower(s) {
	case "true", "false", "yes", "no", "on", "off", "y", "n", "null":
		return Str(s)
	}
	return s
}

// blockLine matches a line that a literal block carries unchanged.
var blockLine = regexp.MustCompile(`^[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f\x{2028}\x{2029}\x{feff}]*$`)

// isBlock reports whether a text of several lines can be written as a literal block.
func isBlock(s string) bool {
	for line := range strings.SplitSeq(strings.TrimSuffix(s, "\n"), "\n") {
		if !blockLine.MatchString(line) || strings.HasSuffix(line, " ") {
			return false
		}
	}
	return true
}

func (w *yamlWriter) block(depth int, head, s string) {
	text, found := strings.CutSuffix(s, "\n")
	mark := "|-"
	if found {
		mark = "|"
	}
	w.line(depth, head+mark)
	for line := range strings.SplitSeq(text, "\n") {
		w.line(depth+1, line)
	}
}
