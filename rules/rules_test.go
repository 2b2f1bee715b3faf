package rules

import (
	"fmt"
	"strings"
	"testing"

	"starling.dev/starling/api"
)

const kind = `
kind: Kind
name: database
spec:
  doc: A database.
  fields:
    spec.engine: {type: string, default: postgres, doc: x}
    spec.size: {type: bytes, doc: x}
    spec.cpu: {type: cpu, doc: x}
    spec.replicas: {type: integer, default: 1, doc: x}
    spec.backup.hour: {type: integer, doc: x}
    spec.backup.keep: {type: duration, doc: x}
    spec.users.*.role: {type: string, default: reader, doc: x}
    spec.tags: {type: list of strings, doc: x}
  rules:
    r: {check: %s, message: it is wrong}
`

func compile(t *testing.T, check string) (*Set, *api.Catalog, []api.Problem) {
	t.Helper()
	specs, err := api.ParseYAML("k", fmt.Appendf(nil, kind, api.Str(check)))
	if err != nil {
		t.Fatal(err)
	}
	table, ok := api.DefineKind("database", specs[0].Fields)
	if !ok {
		t.Fatal("no table")
	}
	s, problems := Compile(table, specs[0].Fields)
	return s, api.Builtin().With(table), problems
}

// TestCheck: what rules say of specs. An empty want is a spec that holds.
func TestCheck(t *testing.T) {
	for _, tt := range []struct{ check, spec, want string }{
		{"spec.replicas <= 3", "replicas: 3", ""},
		{"spec.replicas <= 3", "replicas: 4", "spec.replicas: it is wrong (rule r)"},
		{"spec.replicas <= 3", "engine: a", ""}, // the default is 1
		{"spec.engine != 'sqlite' || spec.replicas == 1", "{engine: sqlite, replicas: 2}", "spec.engine: it is wrong (rule r)"},
		{"spec.size >= 1024 * 1024", "size: 1Mi", ""},
		{"spec.size >= 1024 * 1024", "size: 1000k", "spec.size: it is wrong (rule r)"},
		{"spec.size >= 1", "engine: a", "spec.size: it is wrong (the rule r can't be computed: no such key: size; ask for it with has() first)"},
		{"!has(spec.size) || spec.size >= 1", "engine: a", ""},
		{"spec.cpu == 1500", "cpu: 1500m", ""},
		{"!has(spec.backup.hour) || spec.backup.hour < 24", "engine: a", ""},
		{"!has(spec.backup.hour) || spec.backup.hour < 24", "backup: {hour: 24}", "spec.backup.hour: it is wrong (rule r)"},
		{"spec.backup.keep > duration('1h')", "backup: {keep: 30m}", "spec.backup.keep: it is wrong (rule r)"},
		{"spec.users.all(u, spec.users[u].role == 'reader' || u.startsWith('admin'))", "users: {a: {}, admin-b: {role: writer}}", ""},
		{"spec.users.all(u, spec.users[u].role == 'reader' || u.startsWith('admin'))", "users: {a: {}, b: {role: writer}}", "spec.users: it is wrong (rule r)"},
		{"spec.tags.exists(t, t.matches('^[a-z]+$'))", "tags: [A, b]", ""},
		{"size(spec.users) > 0", "engine: a", "spec.users: it is wrong (rule r)"},
		{"spec.users.map(u, u) == ['a', 'b', 'c', 'd', 'e']", "users: {e: {role: x}, d: {role: x}, c: {role: x}, b: {role: x}, a: {role: x}}", ""},
	} {
		s, c, problems := compile(t, tt.check)
		if len(problems) > 0 {
			t.Errorf("%s: %v", tt.check, problems)
			continue
		}
		spec := tt.spec
		if !strings.HasPrefix(spec, "{") {
			spec = "{" + spec + "}"
		}
		specs, err := c.ParseYAML("o", []byte("kind: Database\nname: x\nspec: "+spec))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for range 20 { // the order of Go's maps must not show
			var all []string
			for _, p := range s.Check(specs[0].Fields) {
				all = append(all, p.String())
			}
			if now := strings.Join(all, "; "); got != "" && now != got {
				t.Fatalf("%s of %s: %q, then %q", tt.check, tt.spec, got, now)
			} else {
				got = now
			}
		}
		if got != tt.want {
			t.Errorf("%s of %s:\n%q, want\n%q", tt.check, tt.spec, got, tt.want)
		}
	}
}

// TestRefused: expressions that are no CEL, know other fields, or might differ between
// machines.
func TestRefused(t *testing.T) {
	for check, want := range map[string]string{
		"spec.replicas <":                       "spec.rules.r.check: character",
		"spec.replicas + 1":                     "the expression gives an int",
		"1 + 1":                                 "the expression gives an int",
		"spec.relicas == 1":                     "a Database has no spec.relicas: there is no such field; did you mean replicas?",
		"spec.users.all(u, has(spec.engine.x))": "spec.engine has no fields below it",
		"now() > spec.replicas":                 "undeclared reference to 'now'",
		"spec.replicas > 1.5":                   "1.5 is a fraction",
		"double(spec.replicas) > double('1')":   "double() makes a fraction",
		"timestamp('2026-01-01T00:00:00Z').getHours('Europe/Berlin') == 1": "depends on the machine",
		"timestamp('2026-01-01T00:00:00Z').getHours() == 0":                "",
		strings.Repeat("(", 100) + "true" + strings.Repeat(")", 100):       "character",
		strings.Repeat("spec.replicas > 0 && ", 30) + "true":               "", strings.Repeat("spec.replicas > 0 && ", 45) + "true": "expression node count exceeds limit",
	} {
		_, _, problems := compile(t, check)
		got := ""
		if len(problems) > 0 {
			got = problems[0].String()
		}
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", check, got, want)
		}
	}
}

// TestCost: an evaluation that would take long is given up, and counts as a broken rule.
func TestCost(t *testing.T) {
	s, _, problems := compile(t, "spec.tags.all(a, spec.tags.all(b, spec.tags.all(c, a + b + c != 'x')))")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	many := make([]string, 1000)
	got := s.Check(api.Fields{"spec.tags": api.List(many...)})
	if len(got) != 1 || !strings.Contains(got[0].Message, "cost limit exceeded") {
		t.Errorf("%v", got)
	}
}

// FuzzCompile: an expression is compiled or refused, and then judges without a panic, and
// twice alike.
func FuzzCompile(f *testing.F) {
	f.Add("spec.replicas <= 3", int64(3))
	f.Add("spec.users.all(u, spec.users[u].role == 'reader')", int64(0))
	f.Fuzz(func(t *testing.T, check string, n int64) {
		table, _ := api.DefineKind("database", api.Fields{"spec.fields.\"spec.replicas\".type": `"integer"`})
		s, problems := Compile(table, api.Fields{"spec.rules.r.check": api.Str(check), "spec.rules.r.message": `"no"`})
		if len(problems) > 0 {
			return
		}
		fields := api.Fields{"spec.replicas": api.Int(n)}
		if a, b := fmt.Sprint(s.Check(fields)), fmt.Sprint(s.Check(fields)); a != b {
			t.Fatalf("%s, then %s", a, b)
		}
	})
}
