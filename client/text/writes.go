package text

import (
	"fmt"
	"strings"

	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

// Applied says what a change set did, object by object.
func (s Style) Applied(a *apiv1.ApplyResponse) string {
	var b strings.Builder
	for _, o := range a.GetOutcomes() {
		fmt.Fprintf(&b, "%s %s", client.KeyOf(o.GetKey()), o.GetResult())
		if o.GetRev() != "" && o.GetResult() != "deleted" {
			fmt.Fprintf(&b, " (rev %s)", o.GetRev())
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Safety says where a change set is kept, beside this machine's disk; nothing for one
// that changed nothing.
func (s Style) Safety(a *apiv1.ApplyResponse) string {
	where := "no other machine confirmed it yet, so it is on this machine's disk only"
	switch {
	case a.GetChangeSet() == "":
		return ""
	case a.GetHeldBy() != "":
		where = "held by " + a.GetHeldBy() + " too"
	case a.GetAlone():
		where = "there is no other machine to hold it"
	}
	return s.paint(sgrDim, fmt.Sprintf("change set %s; %s", a.GetChangeSet(), where)) + "\n"
}
