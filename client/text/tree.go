package text

import (
	"slices"

	apiv1 "starling.dev/starling/api/v1"
)

// branch is one step of an object's graph, drawn as a tree from the goal down to what
// it requires.
type branch struct {
	step   *apiv1.StepStatus
	prefix string // the lines that lead to it
}

// treeOf draws the graph below the goal. A step that several require stands below the
// one that is farthest from the goal, so that whatever a step waits for is below it.
// Steps that the goal does not need are returned apart.
func treeOf(goal string, steps []*apiv1.StepStatus) (tree []branch, others []*apiv1.StepStatus) {
	g := graph{byName: map[string]*apiv1.StepStatus{}, depth: map[string]int{}, parent: map[string]string{}}
	for _, s := range steps {
		g.byName[s.GetStep()] = s
	}
	if g.byName[goal] != nil {
		g.sink(goal, "", 0)
		tree = g.draw(nil, goal, steps, "", "")
	}
	for _, s := range steps {
		if _, needed := g.depth[s.GetStep()]; !needed {
			others = append(others, s)
		}
	}
	return tree, others
}

type graph struct {
	byName map[string]*apiv1.StepStatus
	depth  map[string]int
	parent map[string]string
}

// sink lets a step down to the depth at which a longer chain requires it. A graph has
// no cycles; should an answer have one, the depth bounds the descent.
func (g *graph) sink(name, parent string, depth int) {
	if d, seen := g.depth[name]; seen && d >= depth || depth > len(g.byName) {
		return
	}
	g.depth[name], g.parent[name] = depth, parent
	for _, r := range g.byName[name].GetRequires() {
		if g.byName[r] != nil {
			g.sink(r, name, depth+1)
		}
	}
}

func (g *graph) draw(tree []branch, name string, order []*apiv1.StepStatus, own, below string) []branch {
	tree = append(tree, branch{step: g.byName[name], prefix: own})
	if len(tree) > len(g.byName) {
		return tree
	}
	var children []string
	for _, s := range order {
		if g.parent[s.GetStep()] == name && slices.Contains(g.byName[name].GetRequires(), s.GetStep()) {
			children = append(children, s.GetStep())
		}
	}
	for i, c := range children {
		mark, next := "├ ", "│ "
		if i == len(children)-1 {
			mark, next = "└ ", "  "
		}
		tree = g.draw(tree, c, order, below+mark, below+next)
	}
	return tree
}
