package peer

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/cockroachdb/datadriven"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

// TestFieldsOfKinds edits every field that people have in a kind, one at a time, on an
// object at rest, and prints the steps that ran because of it: of the kinds that are not
// in the table of package loops, and of kinds that people defined. What the plan says
// beforehand has to be what happens. Rewrite, and review the difference, with:
//
//	go test ./peer -run TestFieldsOfKinds -rewrite
func TestFieldsOfKinds(t *testing.T) {
	c := newCluster(t, 1)
	h := c.attach("db")
	h.do = func(f loops.ForeignCall) (lifecycle.Outputs, error) { return nil, nil }
	c.run(3 * time.Second)
	covered := []string{"Machine", "Pod"} // by the table of package loops
	untaken := map[string]bool{}          // the fields of which no edit was taken, by KIND PATH
	given := map[string]string{}          // values for fields that do not take just any, by KIND PATH
	datadriven.RunTest(t, "testdata/fields.txt", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "apply" {
			c.mustApply(1, d.Input)
			return ""
		}
		if d.Cmd == "values" {
			for line := range strings.SplitSeq(d.Input, "\n") {
				kind, rest, _ := strings.Cut(line, " ")
				path, value, _ := strings.Cut(rest, " ")
				given[kind+" "+path] = strings.TrimSpace(value)
			}
			return ""
		}
		e := c.edits(1, d.Input)[0]
		kind, _ := c.cores[0].core.Catalog().KindByName(e.Key.Kind)
		covered = append(covered, kind.Name)
		var b strings.Builder
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, f := range kind.Fields {
			if f.Owner != api.People || slices.ContainsFunc([]string{"spec.next.", "spec.previous."}, func(p string) bool { return strings.HasPrefix(f.Path, p) && !strings.HasSuffix(f.Path, ".image") }) {
				continue // of a template one field stands for all: the step reads it whole
			}
			values := c.others(kind.Name, e.Fields, f)
			if v, ok := given[kind.Name+" "+f.Path]; ok {
				values = []string{v}
			}
			if _, before := untaken[kind.Name+" "+f.Path]; !before && len(values) > 0 {
				untaken[kind.Name+" "+f.Path] = true
			}
			for _, v := range values {
				ran := c.editField(t, e, concrete(f, e.Fields), v)
				untaken[kind.Name+" "+f.Path] = untaken[kind.Name+" "+f.Path] && strings.HasPrefix(ran, "refused: ")
				fmt.Fprintf(w, "%s\t%s\t%s\n", f.Path, v, ran)
			}
		}
		w.Flush() // a strings.Builder takes everything
		return b.String()
	})
	for field, none := range untaken {
		if none {
			t.Errorf("testdata/fields.txt has no value that %s takes: add one", field)
		}
	}
	for _, k := range api.Kinds() {
		if !slices.Contains(covered, k.Name) {
			t.Errorf("testdata/fields.txt lacks the kind %s: add an object of it, and rewrite", k.Name)
		}
	}
}

// kindsListed is what messages say of unknown kinds; a new kind must not change them all.
var kindsListed = regexp.MustCompile(`; the kinds are [A-Za-z, ]*`)

// concrete is a field at the keys that the object has.
func concrete(f api.Field, fields api.Fields) string {
	path := f.Path
	for strings.Contains(path, "*") {
		before, after, _ := strings.Cut(path, "*")
		key := "x"
		if keys := fields.Keys(strings.TrimSuffix(before, ".")); len(keys) > 0 {
			key = keys[0]
		}
		path = api.Child(strings.TrimSuffix(before, "."), key) + after
	}
	return path
}

// others are values that the field takes and does not have.
func (c *cluster) others(kind string, fields api.Fields, f api.Field) []string {
	old := c.cores[0].core.Catalog().Effective(kind, fields)[concrete(f, fields)]
	if len(f.Enum) == 0 {
		return []string{map[api.Type]string{
			api.TypeString: `"new"`, api.TypeInt: "7", api.TypeBool: api.Bool(old != "true"), api.TypeStrings: `["new"]`, api.TypeCPU: `"1"`,
			api.TypeBytes: `"128Mi"`, api.TypeDuration: `"42s"`, api.TypePort: "9090", api.TypeTime: `"2026-01-02T00:00:00Z"`, api.TypeJSON: `"new"`,
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

// editField makes the object, edits one field, and takes the object away again.
func (c *cluster) editField(t *testing.T, e Edit, path, value string) string {
	t.Helper()
	if a := c.write(1, e); a.Err != nil {
		t.Fatal(a.Err)
	}
	c.run(3 * time.Second)
	defer func() {
		if a := c.write(1, Edit{Kind: EditDelete, Key: e.Key}); a.Err != nil {
			t.Fatal(a.Err)
		}
		c.run(5 * time.Second)
	}()
	before, _ := c.cores[0].core.See(e.Key)
	if before.Eval.Verdict != lifecycle.Converged {
		t.Fatalf("%s is %s before %s is edited", e.Key, before.Eval.Verdict, path)
	}
	edit := Edit{Kind: EditPatch, Key: e.Key, Fields: api.Fields{path: value}}
	plans, fault := c.cores[0].core.Plan("user:alice", []Edit{edit})
	if fault != nil {
		if len(fault.Problems) > 0 {
			return "refused: " + fault.Problems[0].Message
		}
		return "refused: " + kindsListed.ReplaceAllString(strings.ReplaceAll(fault.Message, "\n", " "), "")
	}
	if a := c.write(1, edit); a.Err != nil {
		t.Fatalf("%s was planned, and refused: %v", path, a.Err)
	}
	c.run(3 * time.Second)
	after, _ := c.cores[0].core.See(e.Key)
	ran := ranSince(after.Graph, before.Object, after.Object)
	if want := plannedSteps(plans[0].Steps); !slices.Equal(want, ran) {
		t.Errorf("%s of %s: %v was planned, and %v ran", path, e.Key, want, ran)
	}
	return strings.Join(ran, ", ")
}

// ranSince lists the steps that have another attempt.
func ranSince(g *lifecycle.Graph, before, after *lifecycle.Object) []string {
	var ran []string
	for _, step := range sortedKeys(after.Results) {
		switch old, now := before.Results[step], after.Results[step]; {
		case now.Attempt == old.Attempt:
		case now.Phase == lifecycle.PhaseUndone:
			if s, _ := g.Step(step); s.Undo != nil || s.Children != "" { // else it is only forgotten
				ran = append(ran, "undo "+step)
			}
		default:
			ran = append(ran, step)
		}
	}
	slices.Sort(ran)
	return ran
}

func plannedSteps(plan []lifecycle.PlanStep) []string {
	var list []string
	for _, p := range plan {
		switch p.Action {
		case "run", "rerun":
			list = append(list, p.Step)
		case "undo":
			list = append(list, "undo "+p.Step)
		}
	}
	slices.Sort(list)
	return list
}
