package api

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Explain says what a field is: its type, meaning, owner and default; for a path with
// fields below it, and for a kind, it lists those. The path begins with a kind, in any
// case: "Pod.spec.containers.*.image", "pod.status.machine". A key may stand in the
// place of "*".
func (c *Catalog) Explain(path string) (string, error) {
	first, rest, _ := cut(path)
	kind, ok := c.KindByName(first)
	if !ok {
		return "", Errorf(NotFound, "begin with a kind, as in pod.spec: %s", c.Unknown(first))
	}
	s := c.schemas[kind.Name]
	n, err := s.explained(kind.Name, rest)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	switch {
	case n == s.root:
		fmt.Fprintf(&b, "%s\n\n%s\n", kind.Name, wrap(kind.Doc))
	case n.field != nil:
		n.field.explain(&b, kind.Name)
		return b.String(), nil
	default:
		n.explain(&b, kind.Name)
	}
	n.listChildren(&b)
	return b.String(), nil
}

// explained finds the node of a path, or says where the path leaves the table.
func (s *schema) explained(kind, path string) (*node, error) {
	n, at := s.root, kind
	for more := path != ""; more; {
		var seg string
		seg, path, more = cut(path)
		next := n.child(seg)
		if next == nil && n.field != nil {
			return nil, Errorf(NotFound, "%s has no fields below it: it is %s", at, article(string(n.field.Type)))
		}
		if next == nil {
			return nil, Errorf(NotFound, "%s.%s: %s", at, seg, s.unknownField(n, unescape(seg)))
		}
		n, at = next, at+"."+next.name
	}
	return n, nil
}

func (f *Field) explain(b *strings.Builder, kind string) {
	fmt.Fprintf(b, "%s.%s\n\n%s\n\n", kind, f.Path, wrap(f.Doc))
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(w, "%s:\t%s\n", name, text)
		}
	}
	row("type", f.typeText())
	row("values", strings.Join(f.Enum, ", "))
	row("default", f.defaultText())
	if f.Required {
		row("required", "yes")
	}
	row("owner", ownerText(f.Owner))
	_ = w.Flush() // a strings.Builder takes everything
}

func (f *Field) typeText() string {
	hint := map[Type]string{
		TypeCPU:      "cpu, in cores or thousandths of a core: 2, 500m",
		TypeBytes:    "bytes, with Ki, Mi, Gi, Ti, k, M, G or T: 64Mi",
		TypeDuration: "duration, with h, m, s or ms: 10s",
		TypePort:     "port, 1 to 65535",
		TypeTime:     "time, RFC 3339 in UTC",
	}[f.Type]
	if hint != "" {
		return hint
	}
	return string(f.Type)
}

// defaultText is the default as a person would write it.
func (f *Field) defaultText() string {
	if f.Computed != "" {
		return f.Computed
	}
	if s, err := readString(f.Default); err == nil {
		return s
	}
	return f.Default
}

func ownerText(owner string) string {
	switch owner {
	case People:
		return "people"
	case OwnerParent:
		return "the parent's loop"
	}
	return "loop " + owner
}

func (n *node) explain(b *strings.Builder, kind string) {
	fmt.Fprintf(b, "%s.%s\n\n", kind, n.path)
	if n.group.Doc != "" {
		fmt.Fprintf(b, "%s\n", wrap(n.group.Doc))
	}
	if n.star != nil {
		fmt.Fprintf(b, "A map; its keys are of the form: %s.\n", n.star.group.Key)
	}
}

// listChildren lists what is directly below a node; an entry of a map is shown with
// its own fields, since its key says nothing.
func (n *node) listChildren(b *strings.Builder) {
	if n.star != nil && n.star.field == nil {
		n = n.star
	}
	b.WriteString("\nfields:\n")
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, c := range n.children {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", c.name, c.summaryType(), firstSentence(c.doc()))
	}
	_ = w.Flush() // a strings.Builder takes everything
}

func (n *node) summaryType() string {
	switch {
	case n.field != nil:
		return string(n.field.Type)
	case n.star != nil:
		return "map"
	}
	return "fields"
}

func (n *node) doc() string {
	if n.field != nil {
		return n.field.Doc
	}
	return n.group.Doc
}

// firstSentence cuts at the first full stop that ends a sentence.
func firstSentence(doc string) string {
	if i := strings.Index(doc, ". "); i >= 0 {
		return doc[:i+1]
	}
	return doc
}

// wrap breaks text into lines that fit a terminal.
func wrap(text string) string {
	const width = 80
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		if i > 0 && column+1+len(word) > width {
			b.WriteByte('\n')
			column = 0
		} else if i > 0 {
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}
