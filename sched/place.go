package sched

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"starling.dev/starling/api"
)

// Machine is a candidate as the deciding peer sees it.
type Machine struct {
	Name   string
	Labels map[string]string
	// CPU (thousandths of a core) and Memory (bytes) are what pods may have in all.
	CPU, Memory int64
	// UsedCPU and UsedMemory are reserved by other pods.
	UsedCPU, UsedMemory int64
	// Pods counts the other pods that are placed there, Siblings those of them that have the
	// same parent as the one to place.
	Pods, Siblings int
	// Ports says who has host ports there, in a sentence for each: other pods, programs.
	Ports map[uint16]string
	// Standing is "ready", or why it takes no pods: "drained", "silent", "not ready".
	Standing string
}

// Need is what a pod asks for.
type Need struct {
	ID          string // breaks ties
	CPU, Memory int64
	Ports       []uint16 // of the host, sorted
	Require     map[string]string
	// Previous is the machine that holds the pod: it stays there if it can.
	Previous string
	// Parent is the identity of the object that made the pod, "" for none, and Slot the pod's
	// number among those that it made.
	Parent string
	Slot   int
	// Refused lists machines that refused the pod in this generation, with the reason.
	Refused map[string]string
}

// Refusal says why one machine can't take the pod.
type Refusal struct {
	Machine string
	Reason  string
}

// Placement is a decision with all its reasons.
type Placement struct {
	Machine  string // empty when none fits
	Refusals []Refusal
}

// Place decides. A pod stays where it is as long as that machine fits; else the machines
// with the fewest of its siblings are left, and of these the one with the largest free
// share after placing wins (the worse of CPU and memory counts), then the highest
// rendezvous hash.
func Place(need Need, machines []Machine) Placement {
	var p Placement
	var fitting []*Machine
	for i := range machines {
		m := &machines[i]
		if reason := refuse(need, m); reason != "" {
			p.Refusals = append(p.Refusals, Refusal{m.Name, reason})
			continue
		}
		if m.Name == need.Previous {
			return Placement{Machine: m.Name}
		}
		fitting = append(fitting, m)
	}
	if len(fitting) > 0 {
		p.Machine = choose(need, fitting).Name
	}
	slices.SortFunc(p.Refusals, func(a, b Refusal) int { return strings.Compare(a.Machine, b.Machine) })
	return p
}

// near is how much less of a machine may be free, in thousandths, for siblings to be
// spread over it too.
const near = 250

// choose picks one of the machines that fit, with as few siblings as there are anywhere.
// Siblings are often placed at the same moment, each by another peer, which sees only some
// of the others or none. So they do not all take the emptiest machine: the machines that
// are nearly as empty stand in an order that the siblings share, and each begins at the
// place that its slot points at.
func choose(need Need, fitting []*Machine) *Machine {
	emptier := func(a, b *Machine) int { return better(need, a, b) }
	few := slices.MinFunc(fitting, func(a, b *Machine) int { return cmp.Compare(a.Siblings, b.Siblings) }).Siblings
	if need.Parent != "" {
		least := share(need, slices.MaxFunc(fitting, emptier)) - near
		ring := slices.DeleteFunc(slices.Clone(fitting), func(m *Machine) bool { return share(need, m) < least })
		slices.SortFunc(ring, func(a, b *Machine) int {
			return cmp.Or(cmp.Compare(Score(need.Parent, a.Name), Score(need.Parent, b.Name)), strings.Compare(a.Name, b.Name))
		})
		for i := range ring {
			if m := ring[(need.Slot+i)%len(ring)]; m.Siblings == few {
				return m
			}
		}
	}
	return slices.MaxFunc(slices.DeleteFunc(fitting, func(m *Machine) bool { return m.Siblings > few }), emptier)
}

// better is a total order, so that the same machines in any other order give the same
// choice.
func better(need Need, a, b *Machine) int {
	return cmp.Or(
		cmp.Compare(share(need, a), share(need, b)),
		cmp.Compare(Score(need.ID, a.Name), Score(need.ID, b.Name)),
		strings.Compare(b.Name, a.Name),
	)
}

// What a pod counts for beside what it reserves, when machines are compared. Without it,
// pods that reserve nothing would all go to the one machine that is the emptiest.
const (
	podCPU    = 100      // thousandths of a core
	podMemory = 64 << 20 // bytes
)

// share is a machine's score: what would be left free after placing, of the scarcer of
// CPU and memory, in thousandths of what pods may have there in all. 1000 is an empty
// machine and a pod that reserves nothing; less than 0 one where many pods reserve little.
func share(need Need, m *Machine) int64 {
	left := func(have, used, want int64) int64 {
		if have <= 0 {
			return 0
		}
		return (have - used - want) * 1000 / have
	}
	pods := int64(m.Pods)
	return min(left(m.CPU, m.UsedCPU+pods*podCPU, need.CPU), left(m.Memory, m.UsedMemory+pods*podMemory, need.Memory))
}

// refuse returns why the machine can't take the pod, or "".
func refuse(need Need, m *Machine) string {
	if m.Standing != "ready" {
		return m.Standing
	}
	for _, k := range slices.Sorted(maps.Keys(need.Require)) {
		want := need.Require[k]
		switch have, ok := m.Labels[k]; {
		case !ok:
			return fmt.Sprintf("has no label %s (needs %s=%s)", k, k, want)
		case have != want:
			return fmt.Sprintf("has %s=%s (needs %s=%s)", k, have, k, want)
		}
	}
	if why := Short(need.CPU, need.Memory, m.CPU-m.UsedCPU, m.Memory-m.UsedMemory, m.CPU, m.Memory); why != "" {
		return why
	}
	if why := Taken(need.Ports, m.Ports); why != "" {
		return why
	}
	return need.Refused[m.Name]
}

// Short compares what is needed with what is free, and says what is short by which
// numbers, or "". CPU is in thousandths of a core, memory in bytes.
func Short(needCPU, needMemory, freeCPU, freeMemory, allCPU, allMemory int64) string {
	freeCPU, freeMemory = max(freeCPU, 0), max(freeMemory, 0) // who needs nothing fits anywhere
	var short []string
	if needCPU > freeCPU {
		short = append(short, fmt.Sprintf("cpu: needs %s, has %s free of %s", api.FormatCPU(needCPU), api.FormatCPU(freeCPU), api.FormatCPU(allCPU)))
	}
	if needMemory > freeMemory {
		short = append(short, fmt.Sprintf("memory: needs %s, has %s free of %s", memory(needMemory), memory(freeMemory), memory(allMemory)))
	}
	return strings.Join(short, "; ")
}

// Taken says who has the host ports that are wanted, or "".
func Taken(want []uint16, holders map[uint16]string) string {
	var taken []string
	for _, port := range want {
		if by, ok := holders[port]; ok {
			taken = append(taken, by)
		}
	}
	return strings.Join(taken, "; ")
}

// memory prints bytes as people say them: exactly where that is short, else rounded down
// to whole Mi.
func memory(b int64) string {
	if exact := api.FormatBytes(b); len(exact) <= len("1024Mi") {
		return exact
	}
	return api.FormatBytes(b >> 20 << 20)
}
