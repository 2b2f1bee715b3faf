package compose

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"starling.dev/starling/api"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the files in testdata")

// The conversion of a file is a document that people review: what the objects are, and what
// they leave out.
func TestConversions(t *testing.T) {
	for name, o := range map[string]Options{
		"shop":       {Environment: []string{"GREETING=good day"}, Namespace: "default"},
		"shop-night": {Profiles: []string{"night"}, Namespace: "shop"},
	} {
		t.Run(name, func(t *testing.T) {
			o.Files = []string{"testdata/shop.yaml"}
			objects, left, err := Read(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			for _, object := range objects {
				text := api.Render(object.Key, object.Fields)
				again, err := api.ParseYAML("converted", text)
				if err != nil || len(again) != 1 || again[0].Key != object.Key {
					t.Errorf("can't be applied: %v in\n%s", err, text)
				}
				b.Write(text)
				b.WriteString("---\n")
			}
			for _, l := range left {
				b.WriteString("# " + l.String() + "\n")
			}
			path := filepath.Join("testdata", name+".txt")
			if *rewrite {
				if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if b.String() != string(want) {
				t.Errorf("the conversion is\n%s\nwant\n%s", b.String(), want)
			}
		})
	}
}

func TestFilesThatCantBeConverted(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"no YAML":         {"services: [", "read the Compose files"},
		"no such field":   {"services: {a: {image: x, imag: y}}", "imag"},
		"nothing to run":  {"services: {a: {build: .}}", "services.a: it has no image"},
		"no name":         {"services: {a.b: {image: x}}", "services.a.b: \"a.b\" is not a name"},
		"a strange grace": {"services: {a: {image: x, stop_signal: SIGNONE}}", "services.a: what it says is not valid here: spec.stop.signal"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "compose.yaml")
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, err := Read(t.Context(), Options{Files: []string{path}, Namespace: "default"})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Read returned %v, want %q", err, test.want)
			}
		})
	}
}
