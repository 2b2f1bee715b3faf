package text

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
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
