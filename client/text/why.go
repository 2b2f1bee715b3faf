package text

import (
	"fmt"
	"strings"

	apiv1 "starling.dev/starling/api/v1"
)

// Why prints the cause, the remedy, and the chain that leads to the cause.
func (s Style) Why(w *apiv1.WhyResponse) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", s.verdict(w.GetVerdict()), w.GetSentence())
	if w.GetFix() != "" {
		fmt.Fprintf(&b, "to do: %s\n", w.GetFix())
	}
	for i, l := range w.GetChain() {
		mark := "  "
		if i > 0 {
			mark = "  " + strings.Repeat("  ", i-1) + "└ "
		}
		orderOnly := i+1 < len(w.GetChain()) && w.GetChain()[i+1].GetRelation() == "after"
		b.WriteString(s.paint(sgrDim, mark+s.link(l.GetStep(), orderOnly)) + "\n")
	}
	for _, f := range w.GetBeside() {
		fmt.Fprintf(&b, "beside that: %s\n", f.GetSentence())
		if f.GetFix() != "" {
			fmt.Fprintf(&b, "to do: %s\n", f.GetFix())
		}
	}
	return b.String() + s.AnyView(w.GetView())
}

// link says where one step of the chain stands, and whether it only waits its turn. The
// last one is the cause, which the sentence tells in full.
func (s Style) link(st *apiv1.StepStatus, orderOnly bool) string {
	text := fmt.Sprintf("%s is %s", st.GetStep(), st.GetState())
	if st.GetWaitsFor() != "" && (st.GetState() != "undoing" || !strings.HasPrefix(st.GetWaitsFor(), "machine/")) {
		text = fmt.Sprintf("%s waits for %s", st.GetStep(), st.GetWaitsFor())
		if orderOnly {
			text += " (order only)"
		}
	}
	if st.GetMachine() != "" {
		text += " on " + st.GetMachine()
	}
	if st.GetSinceMs() > 0 {
		text += " for " + s.age(st.GetSinceMs())
	}
	if st.GetCode() != "" {
		text += ": " + st.GetCode()
	}
	return text
}
