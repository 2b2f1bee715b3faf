package api

import (
	"fmt"
	"strings"
)

// Reference returns the manual of all kinds, in Markdown.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	for i := range metaFields {
		f := &metaFields[i]
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Path, requiredText(f), f.Doc)
	}
	for _, k := range Kinds() {
		k.reference(&b)
	}
	return b.String()
}

const referenceHead = `# Kinds and their fields

<!-- Made from the tables in package api; a test keeps it current. -->

Every object has a kind, a name and fields. Each field has one owner: people write the spec and the
lifecycle, and every field of the status is written by one loop. Defaults are shown on reading and never
stored. ` + "`peer explain pod.spec.containers.*.image`" + ` prints one entry of this page.

In a path, ` + "`*`" + ` stands for a key of a map. Maps merge by key; a list is one value.

| type | how it is written |
|---|---|
| cpu | whole cores, or thousandths of a core with m: ` + "`2`, `500m`" + ` |
| bytes | a whole number with Ki, Mi, Gi, Ti (1024) or k, M, G, T (1000), or none: ` + "`64Mi`" + ` |
| duration | whole numbers with h, m, s, ms, us or ns: ` + "`10s`, `1h30m`" + ` |
| port | 1 to 65535 |
| time | RFC 3339 in UTC |
| name | 1 to 63 of a-z, 0-9 and -, with no - at either end |
| label | 1 to 63 letters and digits, with -, _ or . between them; a domain name and / may stand before |

There are no fractions, and a number never stands in for a string: put quotes around it.

## Every document

| field | required | meaning |
|---|---|---|
`

func requiredText(f *Field) string {
	if f.Required {
		return "yes"
	}
	return "no"
}

func (k Kind) reference(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n", k.Name, k.Doc)
	if !k.Namespaced {
		fmt.Fprintf(b, "\nA %s has no namespace.\n", k.Name)
	}
	for _, part := range []string{"spec", "lifecycle", "status"} {
		if n := schemaOf(k.Name).lookup(part); n != nil {
			fmt.Fprintf(b, "\n### %s %s\n\n%s\n\n", k.Name, part, n.group.Doc)
			b.WriteString("| field | type | default | owner | meaning |\n|---|---|---|---|---|\n")
			n.referenceRows(b)
		}
	}
}

// referenceRows writes a row for each group that has documentation and each field.
func (n *node) referenceRows(b *strings.Builder) {
	for _, c := range n.children {
		switch {
		case c.field != nil:
			c.field.referenceRow(b)
		case c.group.Doc != "":
			fmt.Fprintf(b, "| `%s` | %s | | | %s |\n", c.path, c.summaryType(), c.group.Doc)
		}
		c.referenceRows(b)
	}
}

func (f *Field) referenceRow(b *strings.Builder) {
	typ, value := string(f.Type), f.defaultText()
	if len(f.Enum) > 0 {
		typ = "`" + strings.Join(f.Enum, "`, `") + "`"
	}
	switch {
	case f.Required:
		value = "*required*"
	case f.Computed == "" && value != "":
		value = "`" + value + "`"
	}
	fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", f.Path, typ, value, ownerText(f.Owner), f.Doc)
}

// ErrorReference returns the manual of the error codes, in Markdown.
func ErrorReference() string {
	var b strings.Builder
	b.WriteString(errorHead)
	for _, c := range Codes() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c.Name, c.Doc, c.Do)
	}
	return b.String()
}

const errorHead = `# Error codes

<!-- Made from the table in package api; a test keeps it current. -->

Every error that a command, a peer or a step of a lifecycle reports has one of these codes. Codes are for
programs and do not change; the message beside them names the case.

| code | what is wrong | what to do |
|---|---|---|
`
