package e2e

import (
	"fmt"
	"strings"
)

// podSpec is the one shape of pod that most tests want; the zero value of a field
// leaves it out.
type podSpec struct {
	name    string
	image   string // helloImage if empty
	args    string // as YAML: a list in brackets
	cpu     string
	memory  string
	require string // LABEL: VALUE
	grace   string // of a silent machine; short, so that tests are
	restart string
	more    string // lines below spec, indented by two
}

// serve makes the program listen on the port that the tests ask.
const serve = `[--listen, "[::]:8080"]`

func (p podSpec) String() string {
	if p.image == "" {
		p.image = helloImage
	}
	if p.grace == "" {
		p.grace = "2s"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "kind: Pod\nname: %s\nspec:\n  containers:\n    app:\n      image: %s\n", p.name, p.image)
	line := func(indent int, key, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%*s%s: %s\n", indent, "", key, value)
		}
	}
	line(6, "args", p.args)
	if p.cpu+p.memory != "" {
		b.WriteString("      resources:\n")
		line(8, "cpu", p.cpu)
		line(8, "memory", p.memory)
	}
	if p.require != "" {
		line(2, "require", "{"+p.require+"}")
	}
	line(2, "grace", p.grace)
	line(2, "restart", p.restart)
	line(2, "stop", "{grace: 2s}")
	b.WriteString(p.more)
	return b.String()
}

// set joins specs into one change set.
func set(pods ...podSpec) string {
	var docs []string
	for _, p := range pods {
		docs = append(docs, p.String())
	}
	return strings.Join(docs, "---\n")
}
