package testimage

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
)

func TestSameInputSameImage(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(binary, []byte("a program"), 0o700); err != nil {
		t.Fatal(err)
	}
	options := Options{Binary: binary, Files: map[string]string{"/b": "2", "/a": "1"}}
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := Build(context.Background(), out, options); err != nil {
			t.Fatal(err)
		}
	}
	if first.Len() == 0 || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("two builds differ: %d and %d bytes", first.Len(), second.Len())
	}
}

func TestSaysWhatIsMissing(t *testing.T) {
	for name, o := range map[string]Options{
		"no program":    {},
		"not there":     {Binary: "/nonexistent/program"},
		"no image name": {Binary: "/nonexistent/program", Ref: "Not A Name"},
	} {
		if err := Build(context.Background(), &bytes.Buffer{}, o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
