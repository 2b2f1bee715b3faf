package lifecycle

import (
	"fmt"
	"html"
	"strings"
)

// Dot draws the lifecycle in the language of Graphviz. Solid edges are requirements,
// dashed ones order only, dotted red ones feedback.
func (g *Graph) Dot() string {
	d := g.Describe()
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %q {\n  rankdir=LR;\n  node [fontname=\"sans-serif\"];\n", d.Kind)
	for _, n := range d.Nodes {
		shape := "box"
		if n.Target {
			shape = "ellipse"
		}
		label := n.Name
		if n.Loop != "" && n.Loop != n.Name {
			label += "\n" + n.Loop
		}
		fmt.Fprintf(&b, "  %q [shape=%s, label=%q];\n", n.Name, shape, label)
	}
	for _, e := range d.Edges {
		style := "dashed"
		if e.Why == "requires" {
			style = "solid"
		}
		fmt.Fprintf(&b, "  %q -> %q [style=%s];\n", e.From, e.To, style)
	}
	for _, f := range d.Feedback {
		fmt.Fprintf(&b, "  %q -> %q [style=dotted, color=red, constraint=false, label=%q];\n", f.Writer, f.Reader, f.Path)
	}
	b.WriteString("}\n")
	return b.String()
}

// The measures of a drawing in pixels.
const (
	boxWidth, boxHeight = 110, 34
	columnGap, rowGap   = 60, 22
	margin              = 20
)

// SVG draws the lifecycle as a picture that stands alone: a column for each step of the
// longest way to a node.
func (g *Graph) SVG() string {
	d := g.Describe()
	at, width, height := g.layout()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n", width, height)
	b.WriteString(`<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>` + "\n")
	for _, e := range d.Edges {
		dash := ` stroke-dasharray="4 3"`
		if e.Why == "requires" {
			dash = ""
		}
		arrow(&b, at[e.From], at[e.To], `stroke="#444"`+dash, e.Why+" "+e.From)
	}
	for _, f := range d.Feedback {
		arrow(&b, at[f.Writer], at[f.Reader], `stroke="#c00" stroke-dasharray="1 3"`, "feedback: "+f.Path)
	}
	for _, n := range d.Nodes {
		p, radius := at[n.Name], 4
		if n.Target {
			radius = boxHeight / 2
		}
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" rx="%d" fill="#fff" stroke="#222"/>`, p.x, p.y, boxWidth, boxHeight, radius)
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", p.x+boxWidth/2, p.y+boxHeight/2+5, html.EscapeString(n.Name))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

type point struct{ x, y int }

// layout puts each node one column behind the last of those it waits for.
func (g *Graph) layout() (at map[string]point, width, height int) {
	at = map[string]point{}
	columns := make([]int, len(g.nodes))
	var filled [maxNodes]int
	for i, n := range g.nodes {
		for j := range n.after.all {
			columns[i] = max(columns[i], columns[j]+1)
		}
		p := point{margin + columns[i]*(boxWidth+columnGap), margin + filled[columns[i]]*(boxHeight+rowGap)}
		filled[columns[i]]++
		at[n.name] = p
		width, height = max(width, p.x+boxWidth+margin), max(height, p.y+boxHeight+margin)
	}
	return at, width, height
}

// arrow bends from the right edge of one box to the left edge of another.
func arrow(b *strings.Builder, from, to point, style, title string) {
	x1, y1, x2, y2 := from.x+boxWidth, from.y+boxHeight/2, to.x, to.y+boxHeight/2
	if x2 < x1 { // against the order: from below to below
		x1, y1, x2, y2 = from.x+boxWidth/2, from.y+boxHeight, to.x+boxWidth/2, to.y+boxHeight
		fmt.Fprintf(b, `<path d="M%d %dC%d %d %d %d %d %d" fill="none" %s marker-end="url(#tip)"><title>%s</title></path>`+"\n",
			x1, y1, x1, y1+40, x2, y2+40, x2, y2, style, html.EscapeString(title))
		return
	}
	mid := (x1 + x2) / 2
	fmt.Fprintf(b, `<path d="M%d %dC%d %d %d %d %d %d" fill="none" %s marker-end="url(#tip)"><title>%s</title></path>`+"\n",
		x1, y1, mid, y1, mid, y2, x2, y2, style, html.EscapeString(title))
}
