package api

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestPathRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		segment := rapid.OneOf(rapid.SampledFrom([]string{"", "*", ".", `"`, `\`, `a.b`, `"a"`, "a b", `a\`, "é", "\x00"}), rapid.String())
		segments := rapid.SliceOfN(segment, 1, 5).Draw(t, "segments")
		path := Join(segments...)
		back, err := Split(path)
		if err != nil || !slices.Equal(back, segments) {
			t.Fatalf("%q became %s became %q, %v", segments, path, back, err)
		}
		if !Match(path, path) || !Covers(path, path) || !Overlap(path, path) {
			t.Fatalf("%s does not match itself", path)
		}
		below := Child(path, "x")
		if !Below(below, path) || !Covers(path, below) || Match(path, below) {
			t.Fatalf("%s is not below %s", below, path)
		}
	})
}

func TestSplitRefuses(t *testing.T) {
	for path, want := range map[string]string{
		"":       "the field path is empty",
		"a..b":   `field path "a..b": a segment is empty`,
		"a.":     `field path "a.": a segment is empty`,
		`a."b`:   `field path "a.\"b": the segment "b is not a JSON string`,
		`"a"b.c`: `field path "\"a\"b.c": the segment "a"b.c is not a JSON string`,
		`a"b"`:   `field path "a\"b\"": the segment a"b" holds a quote; write it as a JSON string`,
	} {
		if _, err := Split(path); err == nil || err.Error() != want {
			t.Errorf("Split(%q): %v, want %s", path, err, want)
		}
	}
}

func TestPatterns(t *testing.T) {
	for _, tt := range []struct {
		pattern, path   string
		match, covers   bool
		overlapsPattern bool
	}{
		{"spec.containers.*.image", "spec.containers.app.image", true, true, true},
		{"spec.containers.*", "spec.containers.app.image", false, true, true},
		{"spec.containers.*.image", "spec.containers.app", false, false, true},
		{"spec.containers.*.image", "spec.containers.app.args", false, false, false},
		{"spec.labels.*", `spec.labels."a.b"`, true, true, true},
		{"spec.labels.*", `spec.labels."a.b".c`, false, true, true},
		{"spec.containers.app.*", "spec.containers.*.image", false, false, true},
		{"spec.stop", "spec.stopped", false, false, false},
		{"spec", "spec", true, true, true},
	} {
		if got := Match(tt.pattern, tt.path); got != tt.match {
			t.Errorf("Match(%s, %s) = %v", tt.pattern, tt.path, got)
		}
		if got := Covers(tt.pattern, tt.path); got != tt.covers {
			t.Errorf("Covers(%s, %s) = %v", tt.pattern, tt.path, got)
		}
		if Overlap(tt.pattern, tt.path) != tt.overlapsPattern || Overlap(tt.path, tt.pattern) != tt.overlapsPattern {
			t.Errorf("Overlap(%s, %s) is not %v both ways", tt.pattern, tt.path, tt.overlapsPattern)
		}
	}
}

func TestFieldsBelow(t *testing.T) {
	f := Fields{
		"spec.a-b.x": "1", "spec.a.x": "2", `spec."a.b".x`: "3", "spec.a.y": "4", "spec.b": "5", "special": "6",
	}
	if got, want := f.Keys("spec"), []string{"a", "a-b", "a.b", "b"}; !slices.Equal(got, want) {
		t.Errorf("keys %q, want %q", got, want)
	}
	if got, want := f.Keys(""), []string{"spec", "special"}; !slices.Equal(got, want) {
		t.Errorf("keys at the top %q, want %q", got, want)
	}
	if got := f.Sub("spec.a"); len(Diff(got, Fields{"x": "2", "y": "4"})) > 0 {
		t.Errorf("below spec.a: %v", got)
	}
	if got := f.Select("spec.*.x", "special"); len(got) != 4 || got.Has("spec.b") {
		t.Errorf("selected %v", got)
	}
}
