// Package report prints what was measured beside what was aimed at.
package report

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Row is one figure.
type Row struct {
	What     string
	Target   string // empty: none
	Measured string
	// Ratio says how the figure stands to its target or to another system.
	Ratio string
}

// Print writes the rows as a table.
func Print(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "what\ttarget\tmeasured\tratio")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", r.What, r.Target, r.Measured, r.Ratio)
	}
	return t.Flush()
}

// Of is a ratio with the limit that it is held against.
func Of(value, limit float64) string {
	if limit == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", value/limit)
}
