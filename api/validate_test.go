package api

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestNormalizeIsStable: the stored form is stored as it is, and judging it again
// judges it alike.
func TestNormalizeIsStable(t *testing.T) {
	for _, k := range Kinds() {
		t.Run(k.Name, rapid.MakeCheck(func(t *rapid.T) {
			fields := drawFields(t, k)
			once, problems := Normalize(k.Name, fields)
			twice, again := Normalize(k.Name, once)
			if len(problems)+len(again) > 0 || len(Diff(once, twice)) > 0 {
				t.Fatalf("%v, %v, %v", problems, again, Diff(once, twice))
			}
			if problems := Validate(k.Name, Effective(k.Name, once)); len(problems) > 0 {
				t.Fatalf("defaults are not valid: %v", problems)
			}
		}))
	}
}

// TestValidateMerges: each half of a merge is valid alone, and the whole is not.
func TestValidateMerges(t *testing.T) {
	base := Fields{"spec.containers.app.image": Str("a"), "spec.volumes.data.type": Str(VolumeDirectory)}
	with := func(f Fields, edits ...string) Fields {
		f = f.Clone()
		for i := 0; i < len(edits); i += 2 {
			if delete(f, edits[i]); edits[i+1] != "" {
				f[edits[i]] = edits[i+1]
			}
		}
		return f
	}
	for _, tt := range []struct {
		name, want string
		fields     Fields
	}{
		{"valid", "", base},
		{"a container removed, and its arguments set", "spec.containers.side: image is missing",
			with(base, "spec.containers.side.args", List("x"))},
		{"a volume removed, and mounted", `spec.containers.app.mounts.data: the pod has no volume "data"; add it to spec.volumes`,
			with(base, "spec.volumes.data.type", "", "spec.containers.app.mounts.data.path", Str("/data"))},
		{"the last container removed", "spec.containers: a pod needs at least one container",
			with(base, "spec.containers.app.image", "")},
		{"a field of a later version", "spec.futures: there is no such field; there are containers, require, objects, restart, stop, partition, grace, volumes, network, runtime, labels",
			with(base, "spec.futures", "1")},
		{"a path spelled in two ways", `spec.labels."a": write this path as spec.labels.a`,
			with(base, `spec.labels."a"`, Str("x"))},
		{"a path that is none", `spec..x: field path "spec..x": a segment is empty`,
			with(base, `spec..x`, Str("x"))},
		{"a value that is not JSON", "spec.restart: this is a number, and the field takes a string; write \"x\"",
			with(base, "spec.restart", "x")},
		{"NUL", `spec.containers.app.env.A: "\x00" holds a NUL character`,
			with(base, "spec.containers.app.env.A", Str("\x00"))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, p := range Validate("Pod", tt.fields) {
				got = append(got, p.String())
			}
			if strings.Join(got, "\n") != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestValidateIsDeterministic(t *testing.T) {
	f := Fields{}
	for i := range 50 {
		f[fmt.Sprintf("spec.x%d", i)] = "1"
		f[fmt.Sprintf("spec.containers.c%d.args", i)] = "1"
	}
	want := Validate("Pod", f)
	for range 10 {
		if got := Validate("Pod", f.Clone()); !reflect.DeepEqual(got, want) {
			t.Fatal("two judgements of the same fields differ")
		}
	}
}

func TestSpecSize(t *testing.T) {
	f := Fields{"spec.containers.app.image": Str("a")}
	room := MaxSpec - specSize(f) - len("spec.containers.app.env.X") - len(`""`)
	f["spec.containers.app.env.X"] = Str(strings.Repeat("x", room))
	if problems := Validate("Pod", f); len(problems) > 0 {
		t.Errorf("a spec of just the limit: %v", problems)
	}
	f["spec.containers.app.env.X"] = Str(strings.Repeat("x", room+1))
	want := []Problem{{Path: "spec", Message: "the spec has 65537 bytes, and the limit is 65536; move large values into the image or a volume", onKey: true}}
	if problems := Validate("Pod", f); !reflect.DeepEqual(problems, want) {
		t.Errorf("a byte more: %v", problems)
	}
}

func TestCheckKey(t *testing.T) {
	for _, tt := range []struct {
		key  Key
		want []string // the paths of the problems
	}{
		{Key{"Pod", "default", "web"}, nil},
		{Key{"Machine", "", "m1"}, nil},
		{Key{"Machine", "default", "m1"}, []string{"namespace"}},
		{Key{"Pod", "", "web"}, []string{"namespace"}},
		{Key{"Pod", "default", strings.Repeat("a", 64)}, []string{"name"}},
		{Key{"Pod", "A", "-"}, []string{"name", "namespace"}},
		{Key{"Nonsense", "", "x"}, []string{"kind"}},
	} {
		var got []string
		for _, p := range Builtin().CheckKey(tt.key) {
			got = append(got, p.Path)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%v: problems at %q, want %q", tt.key, got, tt.want)
		}
	}
}

func TestEditsForApply(t *testing.T) {
	current := Fields{
		"spec.restart": Str("never"), "spec.runtime": Str("crun"), "lifecycle.restart": "3", "lifecycle.target": Str("running"),
		"status.machine": Str("m1"),
	}
	wanted := Fields{"spec.restart": Str("always"), "spec.grace": Str("5s"), "lifecycle.target": Str("stopped")}
	want := []Edit{
		{"lifecycle.target", `"running"`, `"stopped"`},
		{"spec.grace", "", `"5s"`},
		{"spec.restart", `"never"`, `"always"`},
		{"spec.runtime", `"crun"`, ""},
	}
	if got := EditsForApply(current, wanted); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if got := EditsForApply(current, current); len(got) > 0 {
		t.Errorf("applying what is there edits %v", got)
	}
}

func TestCodes(t *testing.T) {
	if !slices.IsSortedFunc(Codes(), func(a, b Code) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the codes are not sorted")
	}
	for _, c := range Codes() {
		if !strings.HasSuffix(c.Doc, ".") || !strings.HasSuffix(c.Do, ".") {
			t.Errorf("%s: write sentences", c.Name)
		}
	}
	if c, ok := CodeByName(NoMajority); !ok || c.Name != NoMajority {
		t.Error("a code is not found by its name")
	}
}

func TestErrors(t *testing.T) {
	err := fmt.Errorf("start peer: %w", Errorf(DataDirInUse, "open %s: %w", "/data", fs.ErrExist))
	if CodeOf(err) != DataDirInUse || CodeOf(nil) != "" || CodeOf(fs.ErrExist) != Internal {
		t.Error("the code of an error is not found")
	}
	if !errors.Is(err, fs.ErrExist) || !errors.Is(err, &Error{Code: DataDirInUse}) || errors.Is(err, &Error{Code: DiskFull}) {
		t.Error("the error is not known by its code and its cause")
	}
	if want := "start peer: open /data: file already exists"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}
