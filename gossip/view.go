package gossip

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"starling.dev/starling/crdt"
)

// ViewSize is how many connections a machine of a large cluster keeps of its own accord;
// as many again may come from others.
const ViewSize = 12

// ringReach is how many neighbours on each side a view holds: the cluster stays in
// one piece as long as no 2*ringReach machines in a row are lost at once.
const ringReach = 2

// View chooses the machines to keep connections with, for [Transport.SetPeers]: all of a
// small cluster; of a large one the neighbours on the ring of IDs, and others by rendezvous
// hashing of the pair, which makes most choices mutual. The turn is a number that
// grows with time, the same for all; with it the chosen rotate, the neighbours stay.
func View(self crdt.MachineID, members []Member, size int, turn uint64) []crdt.MachineID {
	var others []crdt.MachineID
	for _, m := range members {
		if m.Status == Alive && m.ID != self {
			others = append(others, m.ID)
		}
	}
	slices.SortFunc(others, compareIDs)
	if len(others) <= max(size, 2*ringReach) {
		return others
	}
	after, _ := slices.BinarySearchFunc(others, self, compareIDs)
	view := make([]crdt.MachineID, 0, size)
	taken := map[crdt.MachineID]bool{}
	for step := -ringReach; step < ringReach; step++ {
		id := others[(after+step+len(others))%len(others)]
		taken[id] = true
		view = append(view, id)
	}
	others = slices.DeleteFunc(others, func(id crdt.MachineID) bool { return taken[id] })
	score := make(map[crdt.MachineID][32]byte, len(others))
	for _, id := range others {
		score[id] = pairScore(self, id, turn)
	}
	slices.SortFunc(others, func(a, b crdt.MachineID) int {
		x, y := score[a], score[b]
		return bytes.Compare(x[:], y[:])
	})
	view = append(view, others[:max(0, size-len(view))]...)
	slices.SortFunc(view, compareIDs)
	return view
}

func pairScore(a, b crdt.MachineID, turn uint64) [32]byte {
	if compareIDs(a, b) > 0 {
		a, b = b, a
	}
	in := append(a[:], b[:]...)
	return sha256.Sum256(binary.BigEndian.AppendUint64(in, turn))
}

func compareIDs(a, b crdt.MachineID) int { return bytes.Compare(a[:], b[:]) }
