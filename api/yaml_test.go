package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestParseYAML reads the documents in testdata/yaml: what is accepted, and the exact
// words of every refusal. Rewrite with -rewrite, and review the difference.
func TestParseYAML(t *testing.T) {
	datadriven.Walk(t, "testdata/yaml", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "parse":
				// In the text, ␉ stands for a tab, which editors like to replace, and
				// ␀ for nothing at all, which keeps blank lines in the input.
				input := strings.NewReplacer("␉", "\t", "␀", "").Replace(d.Input)
				specs, err := ParseYAML("web.yaml", []byte(input))
				if err != nil {
					return fmt.Sprintf("%s\n%v\n", CodeOf(err), err)
				}
				return describeSpecs(specs)
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

func describeSpecs(specs []Spec) string {
	var b strings.Builder
	for _, s := range specs {
		fmt.Fprintf(&b, "%s (line %d)", s.Key, s.Start.Line)
		if s.Note != "" {
			fmt.Fprintf(&b, " note %q", s.Note)
		}
		b.WriteByte('\n')
		for _, path := range s.Fields.Paths() {
			fmt.Fprintf(&b, "  %s = %s\n", path, s.Fields[path])
		}
	}
	return b.String()
}

// TestLocate: problems that a peer found in a merge are shown in the author's file.
func TestLocate(t *testing.T) {
	specs, err := ParseYAML("web.yaml", []byte(examplePod))
	if err != nil {
		t.Fatal(err)
	}
	problems := []Problem{
		{Path: "spec.containers.app.image", Message: "a"},
		{Path: "spec.containers.app.workdir", Message: "b"},
		{Path: "spec.grace", Message: "c"},
	}
	var got []string
	for _, p := range specs[0].Locate(problems) {
		got = append(got, fmt.Sprintf("%s %d:%d", p.Message, p.At.Line, p.At.Column))
	}
	if want := "a 6:14, b 5:5, c 3:1"; strings.Join(got, ", ") != want {
		t.Errorf("located at %s, want %s", strings.Join(got, ", "), want)
	}
	if !problems[0].At.IsZero() {
		t.Error("Locate changed its argument")
	}
}
