package text

import (
	"strings"
	"text/tabwriter"
	"time"

	"starling.dev/starling/api"
)

// Style is what the text depends on beside the answer.
type Style struct {
	// Now is the time that ages are counted to.
	Now time.Time
	// Color allows escape sequences; only for terminals.
	Color bool
	// Width is how many columns the terminal has; 0 where there is none to wrap lines.
	Width int
	// Kinds are the tables of all kinds, where more than the built-in ones are shown.
	Kinds *api.Catalog
}

// Escape sequences of ECMA-48, SGR.
const (
	sgrDim    = "\x1b[2m"
	sgrBold   = "\x1b[1m"
	sgrRed    = "\x1b[31m"
	sgrGreen  = "\x1b[32m"
	sgrYellow = "\x1b[33m"
	sgrEnd    = "\x1b[0m"
)

func (s Style) paint(sgr, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return sgr + text + sgrEnd
}

// verdict paints one of the four words.
func (s Style) verdict(word string) string {
	switch word {
	case "converged":
		return s.paint(sgrGreen, word)
	case "progressing":
		return s.paint(sgrYellow, word)
	case "blocked", "failed":
		return s.paint(sgrRed, word)
	}
	return word
}

// table aligns rows of cells. A row's trailing empty cells leave no spaces behind.
func table(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		_, _ = w.Write([]byte(strings.Join(row, "\t") + "\n")) // into memory
	}
	_ = w.Flush()
	var out strings.Builder
	for line := range strings.Lines(b.String()) {
		out.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return out.String()
}

// fit cuts a table's last column where the terminal ends, so that each row is one line.
func (s Style) fit(table string) string {
	if s.Width <= 1 {
		return table
	}
	var out strings.Builder
	for line := range strings.Lines(table) {
		if runes := []rune(strings.TrimSuffix(line, "\n")); len(runes) > s.Width {
			line = string(runes[:s.Width-1]) + "…\n"
		}
		out.WriteString(line)
	}
	return out.String()
}

// indent puts a margin before each line.
func indent(text, margin string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(margin + line)
	}
	return b.String()
}

// none stands in a table where there is nothing.
const none = "-"

func orNone(s string) string {
	if s == "" {
		return none
	}
	return s
}
