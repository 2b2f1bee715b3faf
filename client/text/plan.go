package text

import (
	"fmt"
	"strings"

	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

// Plan says what a change set would do to each object.
func (s Style) Plan(p *apiv1.PlanResponse) string {
	var parts []string
	for _, o := range p.GetObjects() {
		parts = append(parts, s.objectPlan(o))
	}
	return strings.Join(parts, "\n")
}

func (s Style) objectPlan(o *apiv1.ObjectPlan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", client.KeyOf(o.GetKey()), s.paint(sgrBold, o.GetResult()))
	if o.GetResult() == "unchanged" {
		return b.String()
	}
	b.WriteString(indent(s.Diff(o.GetDiff()), "  "))
	b.WriteString(indent(planSteps(o.GetSteps()), "  "))
	if place := placeOf(o); place != "" {
		fmt.Fprintf(&b, "  %s\n", place)
	}
	for _, what := range o.GetConcerns() {
		fmt.Fprintf(&b, "  %s\n", what)
	}
	if o.GetGap() != "" {
		fmt.Fprintf(&b, "  %s\n", o.GetGap())
	}
	return b.String()
}

// Diff lists fields with what they were and would be.
func (s Style) Diff(diff []*apiv1.FieldDiff) string {
	var b strings.Builder
	for _, d := range diff {
		switch {
		case d.GetOld() == "":
			fmt.Fprintln(&b, s.paint(sgrGreen, "+ "+d.GetPath()+": "+d.GetNew()))
		case d.GetNew() == "":
			fmt.Fprintln(&b, s.paint(sgrRed, "- "+d.GetPath()+": "+d.GetOld()))
		default:
			fmt.Fprintln(&b, s.paint(sgrYellow, "~ "+d.GetPath()+": "+d.GetOld()+" -> "+d.GetNew()))
		}
	}
	return b.String()
}

// planSteps lists the steps that would run, one a line, and those that stay in one.
func planSteps(steps []*apiv1.PlanStep) string {
	var rows [][]string
	var stay []string
	for _, st := range steps {
		if st.GetAction() == "stay" {
			stay = append(stay, st.GetStep())
			continue
		}
		where := ""
		if st.GetMachine() != "" {
			where = "on " + st.GetMachine()
		}
		rows = append(rows, []string{st.GetAction(), st.GetStep(), where, reason(st)})
	}
	if len(stay) > 0 {
		rows = append(rows, []string{"stay", strings.Join(stay, ", ")}) // a last cell widens no column
	}
	return table(rows)
}

func reason(st *apiv1.PlanStep) string {
	switch {
	case st.GetBlocked() != "":
		return "would wait: " + st.GetBlocked()
	case len(st.GetBecause()) > 0 && st.GetAction() == "rerun":
		return "because of " + strings.Join(st.GetBecause(), ", ")
	}
	return ""
}

func placeOf(o *apiv1.ObjectPlan) string {
	switch {
	case o.GetFromMachine() == "" || o.GetFromMachine() != o.GetToMachine():
		return "" // the gap tells
	case o.GetAddress() != "":
		return fmt.Sprintf("it stays on %s with its address %s", o.GetFromMachine(), o.GetAddress())
	}
	return "it stays on " + o.GetFromMachine()
}
