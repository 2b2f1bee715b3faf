package text

import (
	"fmt"
	"strings"
	"time"

	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

// History lists who changed what, the latest first. The rev that holds is marked.
func (s Style) History(entries []*apiv1.HistoryEntry, withDiff bool) string {
	rows := [][]string{{"WHEN", "OBJECT", "REV", "AUTHOR", "CHANGE SET", "NOTE"}}
	for i := len(entries) - 1; i >= 0; i-- {
		rows = append(rows, s.historyRow(entries[i]))
	}
	text := table(rows)
	if !withDiff {
		return text
	}
	var b strings.Builder
	for i, line := range strings.SplitAfter(text, "\n") {
		b.WriteString(line)
		if n := len(entries) - i; i > 0 && n >= 0 {
			b.WriteString(indent(s.Diff(entries[n].GetDiff()), "    "))
		}
	}
	return b.String()
}

func (s Style) historyRow(e *apiv1.HistoryEntry) []string {
	rev := orNone(e.GetRev())
	if e.GetCurrent() {
		rev += " *"
	}
	notes := []string{}
	for _, n := range []string{firstLine(e.GetMessage()), deletes(e), refused(e)} {
		if n != "" {
			notes = append(notes, n)
		}
	}
	return []string{
		s.ago(e.GetTimeMs()), client.KeyOf(e.GetKey()).String(), rev, e.GetAuthor(), orNone(e.GetChangeSet()),
		strings.Join(notes, "; "),
	}
}

func deletes(e *apiv1.HistoryEntry) string {
	if e.GetDeletes() {
		return "(deleted)"
	}
	return ""
}

func refused(e *apiv1.HistoryEntry) string {
	if e.GetRefused() != "" {
		return "(refused: " + e.GetRefused() + ")"
	}
	return ""
}

func firstLine(text string) string {
	line, _, more := strings.Cut(text, "\n")
	if more {
		line += " …"
	}
	return line
}

// Event prints the result of a step in one line.
func (s Style) Event(e *apiv1.Event) string {
	line := fmt.Sprintf("%s  %-24s  %-10s  %-7s", s.clock(e.GetTimeMs()), client.KeyOf(e.GetKey()), e.GetStep(), e.GetPhase())
	var notes []string
	if e.GetMachine() != "" {
		notes = append(notes, "on "+e.GetMachine())
	}
	if e.GetTookMs() > 0 {
		notes = append(notes, "took "+Took(time.Duration(e.GetTookMs())*time.Millisecond))
	}
	if e.GetAttempt() > 1 {
		notes = append(notes, fmt.Sprintf("attempt %d", e.GetAttempt()))
	}
	line += "  " + strings.Join(notes, ", ")
	if e.GetMessage() != "" {
		line += ": " + s.paint(sgrRed, firstLine(e.GetMessage()))
	}
	return strings.TrimRight(line, " ") + "\n"
}
