package peer

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawDeclaration draws a Kind, a Target, a Step, or an object: few names and few fields,
// so that they clash.
func drawDeclaration(t *rapid.T) string {
	pick := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }
	claims := pick("claims", "[]", `["pool:10.0.0.0/24"]`, `["pool:10.0.0.128/25"]`, `["pool:10.0.0.128/25"]`)
	loop := pick("loop", "a", "b")
	switch rapid.IntRange(0, 3).Draw(t, "sort") {
	case 0:
		return fmt.Sprintf("kind: Kind\nname: %s\nspec: {doc: x, plural: %s, fields: {spec.size: {type: integer, default: %s, doc: x}}, rules: {r: {check: spec.size < 5, message: m}}, steps: {s: {loop: %s, reads: [spec.size], claims: %s, undo: true}}}\n",
			pick("name", "one", "two"), pick("plural", "ones", "twos"), pick("default", "1", "2"), loop, claims)
	case 1:
		return fmt.Sprintf("kind: Target\nname: %s\nspec: {kind: %s, requires: %s}\n", pick("name", "x", "y"), pick("kind", "One", "Two", "Pod"), pick("requires", "[]", "[ready]", `["a:x"]`))
	case 2:
		return fmt.Sprintf("kind: Step\nname: %s\nspec: {kind: %s, loop: %s, step: %s, outputs: [status.loops.%s], requiredBy: %s, claims: %s, where: executor}\n",
			pick("name", "p", "q"), pick("kind", "One", "Two", "Pod", "Service"), loop, pick("step", "x", "y"), loop, pick("by", "[]", "[ready]", "[x]"), claims)
	}
	return fmt.Sprintf("kind: %s\nname: o%s\nspec: {size: %s}\n", pick("kind", "One", "Two"), pick("name", "1", "2"), pick("size", "3", "4", "9"))
}

// TestRegistrationConverges: whatever people declare, change and delete on both sides of a
// partition, all peers come to the same kinds and the same misfits once it is healed, and
// every object is at rest or says what holds it up.
func TestRegistrationConverges(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		c := newCluster(t, 3)
		c.attach("a", "b")
		c.run(3 * time.Second)
		for range rapid.IntRange(1, 3).Draw(r, "partitions") {
			c.split(rapid.IntRange(1, 3).Draw(r, "alone"))
			for range rapid.IntRange(1, 5).Draw(r, "writes") {
				c.declare(r, rapid.IntRange(1, 3).Draw(r, "at"), drawDeclaration(r))
			}
			c.heal()
			c.run(5 * time.Second)
		}
		c.run(40 * time.Second)
		for _, n := range c.cores[1:] {
			first := c.cores[0].core
			if first.StateHash() != n.core.StateHash() {
				r.Fatalf("m%d holds another state", n.i)
			}
			a, b := describeKinds(first), describeKinds(n.core)
			for i := range min(len(a), len(b)) {
				if a[i] != b[i] {
					r.Fatalf("m1 has\n%s\nm%d has\n%s", a[i], n.i, b[i])
				}
			}
			if len(a) != len(b) {
				r.Fatalf("m1 has %d kinds and objects, m%d has %d", len(a), n.i, len(b))
			}
		}
	})
}

// declare writes a document, or deletes what it names; a refusal is an answer as well.
func (c *cluster) declare(r *rapid.T, at int, text string) {
	specs, err := c.cores[at-1].core.Catalog().ParseYAML("test", []byte(text))
	if err != nil {
		return // the kind is not known there, or the spec is not valid
	}
	e := Edit{Kind: EditApply, Key: specs[0].Key, Fields: specs[0].Fields}
	if rapid.IntRange(0, 4).Draw(r, "delete") == 0 {
		e = Edit{Kind: EditDelete, Key: e.Key}
	}
	c.write(at, e)
}

// describeKinds is all that a peer makes of Kinds, Targets and Steps, and where every object
// stands by that.
func describeKinds(c *Core) []string {
	parts := []string{fmt.Sprint(c.Catalog().Names(), c.Misfits())}
	for _, g := range c.Graphs() {
		parts = append(parts, fmt.Sprintf("%+v", g.Describe()))
	}
	for _, s := range c.List("") {
		if s.Object.Key.Kind != "Machine" {
			parts = append(parts, fmt.Sprintln(s.Object.Key, s.Object.Fields.Paths(), s.Eval.Verdict, s.Object.Status()))
		}
	}
	return parts
}
