package text

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

// Overview prints one line for each object, and a summary.
func (s Style) Overview(list []*apiv1.ObjectState) string {
	if len(list) == 0 {
		return "there are no objects\n"
	}
	rows := [][]string{{"OBJECT", "VERDICT", "PHASE", "MACHINE", "NOW"}}
	counts := map[string]int{}
	for _, o := range list {
		counts[o.GetObject().GetVerdict()]++
		rows = append(rows, []string{
			client.KeyOf(o.GetObject().GetKey()).String(), orNone(o.GetObject().GetVerdict()), orNone(o.GetObject().GetPhase()),
			orNone(machineOf(o.GetObject())), s.now(o),
		})
	}
	return s.fit(table(rows)) + "\n" + summary(len(list), counts)
}

func summary(n int, counts map[string]int) string {
	var parts []string
	for _, v := range []string{"converged", "progressing", "blocked", "failed"} {
		if counts[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[v], v))
		}
	}
	return fmt.Sprintf("%s: %s\n", count(n, "object"), strings.Join(parts, ", "))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func machineOf(o *apiv1.Object) string {
	if o.GetKey().GetKind() == "Machine" {
		return ""
	}
	return api.Fields(o.GetStatus()).String("status.machine")
}

// now says in a few words what holds the object up.
func (s Style) now(o *apiv1.ObjectState) string {
	if o.GetObject().GetVerdict() == "converged" {
		return ""
	}
	for _, states := range [][]string{{"blocked", "retrying"}, {"running", "undoing"}, {"ready"}} {
		for _, st := range o.GetSteps() {
			if slices.Contains(states, st.GetState()) {
				return s.short(st)
			}
		}
	}
	return ""
}

func (s Style) short(st *apiv1.StepStatus) string {
	text := st.GetStep() + " is " + st.GetState()
	if st.GetSinceMs() > 0 {
		text += " for " + s.age(st.GetSinceMs())
	}
	if st.GetMessage() != "" {
		text += ": " + firstLine(st.GetMessage())
	}
	return text
}

// Status prints where one object stands: its tree of steps and its conflicts.
func (s Style) Status(o *apiv1.ObjectState) string {
	var b strings.Builder
	b.WriteString(s.headline(o))
	tree, others := treeOf(o.GetGoal(), o.GetSteps())
	rows := [][]string{{"STEP", "STATE", "MACHINE", "WAITED", "WORKED", "TRIES", ""}}
	for _, t := range tree {
		rows = append(rows, s.stepRow(t.prefix, t.step))
	}
	for _, st := range others {
		if st.GetState() != "idle" {
			rows = append(rows, s.stepRow("", st))
		}
	}
	b.WriteString("\n" + table(rows))
	for _, c := range o.GetObject().GetConflicts() {
		fmt.Fprintf(&b, "\n%s: %s\n", s.paint(sgrRed, "conflict in "+c.GetPath()), strings.Join(c.GetClaims(), ", "))
	}
	return b.String()
}

func (s Style) headline(o *apiv1.ObjectState) string {
	obj := o.GetObject()
	line := fmt.Sprintf("%s rev %s: %s, %s", s.paint(sgrBold, client.KeyOf(obj.GetKey()).String()), orNone(obj.GetRev()), s.verdict(obj.GetVerdict()), obj.GetPhase())
	if m := machineOf(obj); m != "" {
		line += " on " + m
	}
	if a := api.Fields(obj.GetStatus()).String("status.address"); a != "" {
		line += ", " + a
	}
	line += fmt.Sprintf("\ngoal %s; created %s", goal(o), s.ago(obj.GetCreatedMs()))
	if obj.GetCreator() != "" {
		line += " by " + obj.GetCreator()
	}
	return line + "\n"
}

// Watched prints in a line how an object is, for those who follow many.
func (s Style) Watched(o *apiv1.ObjectState) string {
	obj := o.GetObject()
	line := s.clock(s.Now.UnixMilli()) + " " + client.KeyOf(obj.GetKey()).String()
	if o.GetGone() {
		return line + " gone\n"
	}
	line += fmt.Sprintf(" rev %s: %s, %s", orNone(obj.GetRev()), s.verdict(obj.GetVerdict()), obj.GetPhase())
	if m := machineOf(obj); m != "" {
		line += " on " + m
	}
	return line + "\n"
}

// goal is where the object is to be, and, until it is there, how it got that goal.
func goal(o *apiv1.ObjectState) string {
	text, f := o.GetGoal(), api.Fields(o.GetObject().GetFields())
	if o.GetObject().GetVerdict() == "converged" {
		return text
	}
	if f.String("lifecycle.mode") == "irreversible" {
		text += ", irreversibly"
	}
	if from := f.String("lifecycle.from"); from != "" {
		text += ", from " + from
	}
	return text
}

// marks stand before a step; each is one cell wide.
var marks = map[string]string{
	"done": "✓", "running": "▶", "ready": "▷", "waiting": "·", "retrying": "↻", "blocked": "✗", "undoing": "↩", "idle": "-",
}

func (s Style) stepRow(prefix string, st *apiv1.StepStatus) []string {
	row := []string{prefix + marks[st.GetState()] + " " + st.GetStep(), st.GetState(), st.GetMachine(), "", "", "", s.stepNote(st)}
	if st.GetTarget() {
		return row
	}
	if st.GetStartedMs() > 0 {
		row[3] = tookMs(waited(st))
		row[4] = s.worked(st)
	}
	if st.GetAttempt() > 0 {
		row[5] = strconv.FormatUint(st.GetAttempt(), 10)
	}
	return row
}

func waited(st *apiv1.StepStatus) int64 { return st.GetStartedMs() - dueMs(st) }

// worked is how long the last attempt took, or has taken so far.
func (s Style) worked(st *apiv1.StepStatus) string {
	if st.GetFinishedMs() >= st.GetStartedMs() {
		return tookMs(st.GetFinishedMs() - st.GetStartedMs())
	}
	return Took(s.Now.Sub(time.UnixMilli(st.GetStartedMs()))) + " so far"
}

// stepNote says what is worth knowing of a step that is not simply done.
func (s Style) stepNote(st *apiv1.StepStatus) string {
	var notes []string
	switch st.GetState() {
	case "done":
		if st.GetSinceMs() > 0 {
			notes = append(notes, s.ago(st.GetSinceMs()))
		}
	case "waiting":
		notes = append(notes, "for "+orNone(st.GetWaitsFor()))
	case "running":
		notes = append(notes, "until "+s.clock(st.GetUntilMs()))
	case "retrying":
		notes = append(notes, s.retryNote(st))
	}
	if st.GetDirty() && st.GetState() != "done" {
		notes = append(notes, "its result is out of date")
	}
	if st.GetMessage() != "" {
		notes = append(notes, firstLine(st.GetMessage()))
	}
	return strings.Join(notes, "; ")
}

// retryNote says when a step that failed runs again. One that has not failed itself waits
// for children that did, and for no longer than its deadline.
func (s Style) retryNote(st *apiv1.StepStatus) string {
	if st.GetFailures() == 0 {
		return "for " + orNone(st.GetWaitsFor()) + ", until " + s.clock(st.GetUntilMs())
	}
	return fmt.Sprintf("again %s, failed %s", s.until(st.GetUntilMs()), times(st.GetFailures()))
}

func times(n uint32) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times in a row", n)
}
