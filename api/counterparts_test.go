package api

import (
	"strings"
	"testing"
)

// What people bring from other systems leads to the kind that does the same here, or to a
// sentence, and never shadows a kind.
func TestCounterparts(t *testing.T) {
	all := Builtin()
	for word, want := range map[string]string{
		"Deployment": "PinnedDeployment", "deployments": "PinnedDeployment", "svc": "Service", "nodes": "Machine", "po": "Pod",
		"Ingress": "Site", "ingresses": "Site", "NetworkPolicies": "Allow", "crds": "Kind",
	} {
		if k, ok, _ := all.Counterpart(word); !ok || k.Name != want {
			t.Errorf("%s is %q, want %s", word, k.Name, want)
		}
		if said := all.Unknown(word); !strings.Contains(said, "here that is a "+want) {
			t.Errorf("%s: %s", word, said)
		}
	}
	for word, want := range map[string]string{"ns": "no object", "Namespaces": "no object", "secrets": "no secrets yet", "events": "`peer events`"} {
		if said := all.Unknown(word); !strings.Contains(said, want) {
			t.Errorf("%s: %q lacks %q", word, said, want)
		}
	}
	if said := all.Unknown("Podd"); !strings.Contains(said, "did you mean Pod?") {
		t.Errorf("a word that is misspelt: %s", said)
	}
	for _, p := range counterparts {
		if _, ok := all.KindByName(p.kind); p.kind != "" && !ok || (p.kind == "") == (p.instead == "") {
			t.Errorf("%s leads nowhere", p.words)
		}
		for _, word := range strings.Fields(p.words) {
			if k, ok := all.KindByName(word); ok {
				t.Errorf("%q is a kind itself, %s", word, k.Name)
			}
		}
	}
}
