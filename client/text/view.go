package text

import (
	"fmt"
	"strings"

	apiv1 "starling.dev/starling/api/v1"
)

// View says whose view an answer is, and which machines were out of its reach: nothing,
// where none was.
func (s Style) View(v *apiv1.View) string {
	if len(v.GetUnreachable()) == 0 {
		return ""
	}
	return s.AnyView(v)
}

// AnyView is View for answers where it matters also who was asked.
func (s Style) AnyView(v *apiv1.View) string {
	if v.GetMachine() == "" {
		return ""
	}
	line := "as seen from " + v.GetMachine()
	var gone []string
	for _, m := range v.GetUnreachable() {
		if since := v.GetSilentSinceMs()[m]; since > 0 {
			m = fmt.Sprintf("%s (silent for %s)", m, s.age(since))
		}
		gone = append(gone, m)
	}
	if len(gone) > 0 {
		line += "; out of reach: " + strings.Join(gone, ", ")
	}
	return s.paint(sgrDim, line) + "\n"
}
