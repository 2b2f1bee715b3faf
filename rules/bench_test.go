package rules

import (
	"testing"

	"starling.dev/starling/api"
)

// BenchmarkCheck judges one object by three rules: what a write costs beside the rest.
func BenchmarkCheck(b *testing.B) {
	table, _ := api.DefineKind("database", api.Fields{
		`spec.fields."spec.replicas".type`: `"integer"`, `spec.fields."spec.engine".type`: `"string"`, `spec.fields."spec.users.*.role".type`: `"string"`,
	})
	s, problems := Compile(table, api.Fields{
		"spec.rules.a.check": api.Str("spec.replicas >= 1 && spec.replicas <= 5"),
		"spec.rules.b.check": api.Str("spec.engine != 'sqlite' || spec.replicas == 1"),
		"spec.rules.c.check": api.Str("spec.users.all(u, spec.users[u].role in ['reader', 'writer'])"),
	})
	if len(problems) > 0 {
		b.Fatal(problems)
	}
	f := api.Fields{"spec.replicas": "3", "spec.engine": `"postgres"`, "spec.users.a.role": `"reader"`, "spec.users.b.role": `"writer"`}
	b.ReportAllocs()
	for b.Loop() {
		if broken := s.Check(f); len(broken) > 0 {
			b.Fatal(broken)
		}
	}
}
