package loops

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/cockroachdb/datadriven"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// TestFields edits every field of a kind's table, one at a time, and prints the steps
// that run because of it: all others stay as they are. What the plan says beforehand
// has to be what happens. Rewrite the table, and review it, with:
//
//	go test ./loops -run TestFields -rewrite
func TestFields(t *testing.T) {
	datadriven.RunTest(t, "testdata/fields.txt", func(t *testing.T, d *datadriven.TestData) string {
		kind, ok := api.KindByName(d.Cmd)
		if !ok {
			t.Fatalf("there is no kind %q", d.Cmd)
		}
		var b strings.Builder
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, f := range kind.Fields {
			if f.Owner != api.People {
				continue
			}
			for _, v := range others(kind.Name, f) {
				fmt.Fprintf(w, "%s\t%s\t%s\n", f.Path, v, editField(t, kind.Name, f, v))
			}
		}
		w.Flush() // a strings.Builder takes everything
		return b.String()
	})
}

// whole is a spec with a value at every field that others hang on.
func whole(kind string) api.Fields {
	if kind == "Machine" {
		return api.Fields{"spec.labels.x": `"old"`}
	}
	return api.Fields{
		"spec.containers.x.image": `"localhost/hello:1"`, "spec.containers.x.env.x": `"old"`, "spec.containers.x.ports.x": "8080",
		"spec.containers.x.resources.cpu": `"500m"`, "spec.containers.x.resources.memory": `"64Mi"`,
		"spec.containers.x.mounts.x.path": `"/data"`, "spec.volumes.x.type": `"directory"`, "spec.labels.x": `"old"`,
		"spec.containers.x.probes.liveness.http": `":8080/"`,
	}
}

// editField gives one field another value on a pod or machine at rest.
func editField(t *testing.T, kind string, f api.Field, value string) string {
	t.Helper()
	fields := whole(kind)
	l := newLife(t, kind, fields)
	if e := l.settle(); e.Verdict != lifecycle.Converged {
		t.Fatalf("%s: %s is %s before the edit: %v", f.Path, kind, e.Verdict, l.g.Explain(&e))
	}
	l.takeRan()
	edited := fields.Clone()
	edited[concrete(f)] = value
	before := l.o
	l.edit(edited)
	plan := l.g.Plan(nil, before, l.o, l.goal(), l.env(), l.cluster, l.derived)
	e := l.settle()
	ran := l.takeRan()
	if planned := planned(plan); !slices.Equal(slices.Sorted(slices.Values(planned)), slices.Sorted(slices.Values(ran))) {
		t.Errorf("%s: %s was planned, and %s ran", f.Path, planned, ran)
	}
	text := strings.Join(ran, ", ")
	if e.Verdict != lifecycle.Converged {
		chain := l.g.Explain(&e)
		text += ": " + chain[len(chain)-1].Message
	}
	return strings.TrimSpace(text)
}

// planned lists the steps that a plan would run or undo.
func planned(plan []lifecycle.PlanStep) []string {
	var list []string
	for _, p := range plan {
		switch p.Action {
		case "run", "rerun":
			list = append(list, p.Step)
		case "undo":
			list = append(list, "undo "+p.Step)
		}
	}
	return list
}

// concrete is the field as [whole] has it.
func concrete(f api.Field) string {
	return strings.ReplaceAll(strings.ReplaceAll(f.Path, "probes.*", "probes.liveness"), "*", "x")
}

// others are values that the field takes and does not have.
func others(kind string, f api.Field) []string {
	old := api.Effective(kind, whole(kind))[concrete(f)]
	if len(f.Enum) == 0 {
		return []string{map[api.Type]string{
			api.TypeString: `"new"`, api.TypeInt: "7", api.TypeBool: "true", api.TypeStrings: `["new"]`, api.TypeCPU: `"1"`,
			api.TypeBytes: `"128Mi"`, api.TypeDuration: `"42s"`, api.TypePort: "9090",
		}[f.Type]}
	}
	var values []string
	for _, v := range f.Enum {
		if api.Str(v) != old {
			values = append(values, api.Str(v))
		}
	}
	return values
}
