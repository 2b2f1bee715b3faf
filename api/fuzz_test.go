package api

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzParseYAML: whatever comes in, the parser neither panics nor accepts what it
// would not accept again in its own words.
func FuzzParseYAML(f *testing.F) {
	seedFromTestdata(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		specs, err := ParseYAML("x", data)
		if err != nil {
			if code := CodeOf(err); code != SpecInvalid && code != TooLarge {
				t.Fatalf("the error has the code %s: %v", code, err)
			}
			return
		}
		for _, s := range specs {
			text := Render(s.Key, s.Fields)
			again, err := ParseYAML("x", text)
			if CodeOf(err) == TooLarge {
				continue // indentation may take more than the spec did
			}
			if err != nil || len(again) != 1 || again[0].Key != s.Key || len(Diff(s.Fields, again[0].Fields)) > 0 {
				t.Fatalf("%v: read back otherwise\n%s", err, text)
			}
		}
	})
}

// seedFromTestdata adds each input of the transcripts.
func seedFromTestdata(f *testing.F) {
	files, err := filepath.Glob("testdata/yaml/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, part := range bytes.Split(data, []byte("\nparse\n"))[1:] {
			input, _, _ := bytes.Cut(part, []byte("\n----\n"))
			f.Add(bytes.ReplaceAll(input, []byte("␉"), []byte("\t")))
		}
	}
}

// FuzzSplit: a path that can be split has one spelling, which splits alike.
func FuzzSplit(f *testing.F) {
	for _, path := range []string{"a.b", `a."b.c"`, `"`, `a.""`, `"a"b`, "*", `a."\u002e"`} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		segments, err := Split(path)
		if err != nil {
			return
		}
		again, err := Split(Join(segments...))
		if err != nil || strings.Join(again, "\x00") != strings.Join(segments, "\x00") {
			t.Fatalf("%q, %q, %v", segments, again, err)
		}
	})
}

// TestHostileDocuments: what is built to overrun a parser is refused with a message.
func TestHostileDocuments(t *testing.T) {
	head := "kind: Pod\nname: a\nspec:\n  x: "
	for name, text := range map[string]string{
		"brackets":      head + strings.Repeat("[", MaxSpec/2),
		"braces":        head + strings.Repeat("{a: ", MaxSpec/8),
		"entries":       head + "\n    " + strings.Repeat("- ", MaxSpec/4),
		"complex keys":  strings.Repeat("? ", MaxSpec/4),
		"anchors":       head + strings.Repeat("&a ", MaxSpec/8) + "x",
		"tags":          head + strings.Repeat("!!str ", MaxSpec/16) + "x",
		"indentation":   head + "\n" + indented(300),
		"aliases":       "kind: Pod\nname: a\nspec:\n  a: &a [x, x]\n  b: &b [*a, *a]\n  c: [*b, *b]\n",
		"too large":     head + strings.Repeat("x", MaxSpec),
		"many problems": "kind: Pod\nname: a\nspec:\n" + strings.Repeat("  \"\": x\n", 1000),
		"not UTF-8":     head + "\xff",
		"quotes":        head + strings.Repeat(`"`, 999),
		"NUL":           head + "\x00",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseYAML("x.yaml", []byte(text))
			if code := CodeOf(err); code != SpecInvalid && code != TooLarge {
				t.Fatalf("the error has the code %q: %v", code, err)
			}
			if n := len(err.Error()); n > 32<<10 {
				t.Errorf("the message has %d bytes", n)
			}
		})
	}
}

// indented nests maps by indentation.
func indented(depth int) string {
	var b strings.Builder
	for i := range depth {
		b.WriteString(strings.Repeat(" ", i+4) + "a:\n")
	}
	return b.String()
}
