package lint

import (
	"os"
	"sync"
	"testing"
)

var module = sync.OnceValues(func() (*Tree, error) { return Load(os.DirFS("../..")) })

// rule applies one rule to this module.
func rule(t *testing.T, check func(*Tree) []string) {
	t.Helper()
	tree, err := module()
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range check(tree) {
		t.Error(problem)
	}
}

func TestImports(t *testing.T) {
	rule(t, func(tree *Tree) []string { return tree.CheckImports(Rules()) })
}

func TestCoreIsPure(t *testing.T) {
	rule(t, func(tree *Tree) []string { return tree.CheckPure(Pure(), Impure()) })
}

func TestShape(t *testing.T) { rule(t, (*Tree).CheckShape) }

func TestText(t *testing.T) { rule(t, (*Tree).CheckText) }

func TestLinks(t *testing.T) { rule(t, (*Tree).CheckLinks) }

func TestEachPackageHasOneRule(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules() {
		if seen[r.Of] {
			t.Errorf("%s has two rules; the second would never count", r.Of)
		}
		seen[r.Of] = true
	}
}

// Even where two rules would allow it in steps, the simulation must not get hold of
// what it stands in for.
func TestSimulationReachesNoRealThing(t *testing.T) {
	reach := Reach(Rules(), "sim")
	for _, real := range []string{"store", "gossip", "oci", "daemon", "netstack/linux", everything} {
		if reach[real] {
			t.Errorf("by the rules, sim may link %s", real)
		}
	}
	if !reach["netstack"] || !reach["crdt"] {
		t.Error("sim does not reach what it simulates")
	}
}
