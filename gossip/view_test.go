package gossip

import (
	"slices"
	"testing"

	"starling.dev/starling/crdt"
)

func manyMembers(n int) (list []Member) {
	for i := range n {
		list = append(list, Member{ID: keyID(i), Status: Alive})
	}
	return list
}

func TestViewOfASmallClusterIsEverybodyAlive(t *testing.T) {
	members := manyMembers(6)
	members[3].Status = Failed
	got := View(keyID(0), members, ViewSize, 1)
	if len(got) != 4 || slices.Contains(got, keyID(0)) || slices.Contains(got, keyID(3)) {
		t.Errorf("%v", got)
	}
}

func TestViewsOfALargeClusterHoldTogetherAndRotate(t *testing.T) {
	const n = 300
	members := manyMembers(n)
	links := map[crdt.MachineID][]crdt.MachineID{}
	turned, mutual := 0, 0
	for _, m := range members {
		view := View(m.ID, members, ViewSize, 1)
		if len(view) != ViewSize || slices.Contains(view, m.ID) || len(slices.Compact(slices.Clone(view))) != ViewSize {
			t.Fatalf("%s has the view %v", m.ID, view)
		}
		links[m.ID] = view
		for _, id := range View(m.ID, members, ViewSize, 2) {
			if !slices.Contains(view, id) {
				turned++
			}
		}
	}
	for id, view := range links {
		for _, other := range view {
			if slices.Contains(links[other], id) {
				mutual++
			}
		}
	}
	if turned < n*(ViewSize-2*ringReach)*3/4 {
		t.Errorf("only %d links were exchanged by the next turn", turned)
	}
	if mutual < n*ViewSize/2 {
		t.Errorf("only %d of %d links are mutual", mutual, n*ViewSize)
	}
	if got := reach(links, keyID(0)); got != n {
		t.Errorf("only %d of %d machines can be reached", got, n)
	}
}

// reach counts the machines that a flood from one arrives at.
func reach(links map[crdt.MachineID][]crdt.MachineID, from crdt.MachineID) int {
	seen := map[crdt.MachineID]bool{from: true}
	for queue := []crdt.MachineID{from}; len(queue) > 0; queue = queue[1:] {
		for _, id := range links[queue[0]] {
			if !seen[id] {
				seen[id] = true
				queue = append(queue, id)
			}
		}
	}
	return len(seen)
}
