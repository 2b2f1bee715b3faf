package text

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

// Machines lists the machines of the cluster. The one that was asked is marked.
func (s Style) Machines(m *apiv1.MachinesResponse, wide bool) string {
	head := []string{"MACHINE", "PHASE", "FOR", "ADDRESS", "PODS", "CPU", "MEMORY", "LABELS"}
	if wide {
		head = append(head, "VOTER", "STREAM", "PREFIX", "VERSION", "ID")
	}
	rows := [][]string{head}
	for _, i := range m.GetMachines() {
		row := []string{
			selfMark(i), orNone(i.GetPhase()), s.age(i.GetSinceMs()), orNone(i.GetAddress()), strconv.Itoa(int(i.GetPods())),
			api.FormatCPU(i.GetUsedCpuMilli()) + "/" + api.FormatCPU(i.GetCpuMilli()),
			size(i.GetUsedMemory()) + "/" + size(i.GetMemory()), orNone(labels(i.GetLabels())),
		}
		if wide {
			row = append(row, yes(i.GetVoter()), yes(i.GetConnected()), orNone(i.GetPrefix()), orNone(i.GetVersion()), i.GetId())
		}
		rows = append(rows, row)
	}
	return table(rows)
}

func selfMark(i *apiv1.MachineInfo) string {
	if i.GetSelf() {
		return i.GetName() + " *"
	}
	return i.GetName()
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return none
}

func labels(m map[string]string) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, k+"="+m[k])
	}
	return strings.Join(list, ",")
}

// Images lists images by name, and where they are.
func (s Style) Images(list []*apiv1.Image) string {
	rows := [][]string{{"IMAGE", "DIGEST", "SIZE", "MACHINE"}}
	for _, i := range list {
		rows = append(rows, []string{i.GetName(), shortDigest(i.GetDigest()), size(i.GetSize()), i.GetMachine()})
	}
	return table(rows)
}

// Top lists what containers use. The busiest comes first, or by memory the largest.
func (s Style) Top(list []*apiv1.ContainerUsage, byMemory bool) string {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *apiv1.ContainerUsage) int {
		if byMemory {
			return cmp.Compare(b.GetMemory(), a.GetMemory())
		}
		return cmp.Compare(b.GetCpuMilli(), a.GetCpuMilli())
	})
	rows := [][]string{{"OBJECT", "CONTAINER", "MACHINE", "CPU", "MEMORY"}}
	for _, u := range list {
		rows = append(rows, []string{
			client.KeyOf(u.GetKey()).String(), u.GetContainer(), u.GetMachine(),
			ofLimit(api.FormatCPU(u.GetCpuMilli()), u.GetCpuLimitMilli(), api.FormatCPU),
			ofLimit(size(u.GetMemory()), u.GetMemoryLimit(), size),
		})
	}
	return table(rows)
}

func ofLimit(used string, limit int64, format func(int64) string) string {
	if limit == 0 {
		return used
	}
	return used + "/" + format(limit)
}

// shortDigest cuts a digest to what people can compare.
func shortDigest(d string) string {
	const shown = len("sha256:") + 12
	return d[:min(len(d), shown)]
}

// Findings lists what a look at the machine found.
func (s Style) Findings(d *apiv1.DoctorResponse) string {
	if len(d.GetFindings()) == 0 {
		return fmt.Sprintf("nothing on %s keeps the cluster from working\n", d.GetView().GetMachine())
	}
	var b strings.Builder
	for _, f := range d.GetFindings() {
		fmt.Fprintf(&b, "%s\n", f.GetWhat())
		if f.GetRule() != "" {
			fmt.Fprintf(&b, "  rule: %s\n", f.GetRule())
		}
		if f.GetRemedy() != "" {
			fmt.Fprintf(&b, "  to do: %s\n", f.GetRemedy())
		}
	}
	return b.String()
}
