package api

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestExplain shows what `peer explain` prints.
func TestExplain(t *testing.T) {
	datadriven.RunTest(t, "testdata/explain.txt", func(t *testing.T, d *datadriven.TestData) string {
		text, err := Builtin().Explain(d.Input)
		if err != nil {
			return CodeOf(err) + ": " + err.Error() + "\n"
		}
		return text
	})
}

// TestExplainAll holds that each row and each group of each table can be explained.
func TestExplainAll(t *testing.T) {
	for _, k := range Kinds() {
		for _, f := range k.Fields {
			if _, err := Builtin().Explain(k.Name + "." + f.Path); err != nil {
				t.Errorf("%s: %v", f.Path, err)
			}
		}
		for _, g := range k.Groups {
			if _, err := Builtin().Explain(k.Name + "." + g.Path); err != nil {
				t.Errorf("%s: %v", g.Path, err)
			}
		}
	}
}

var rewriteDocs = flag.Bool("rewrite-docs", false, "rewrite docs/reference")

// TestReferenceIsCurrent keeps docs/reference in step with the tables:
//
//	go test ./api -run TestReferenceIsCurrent -rewrite-docs
func TestReferenceIsCurrent(t *testing.T) {
	for file, want := range map[string]string{"kinds.md": Reference(), "errors.md": ErrorReference()} {
		path := filepath.Join("..", "docs", "reference", file)
		if *rewriteDocs {
			writeDoc(t, path, want)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("docs/reference/%s is not current; run go test ./api -run TestReferenceIsCurrent -rewrite-docs", file)
		}
	}
}

func writeDoc(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
