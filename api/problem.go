package api

import (
	"fmt"
	"strings"
)

// Problem is one fault of a spec.
type Problem struct {
	// Path is the field's; empty for a fault of the document.
	Path string
	// Message says what is wrong and what to do.
	Message string
	// At is where the fault is in a file; the zero Position for a spec without one.
	At Position
	// onKey: the fault is the key that the path ends in, not its value.
	onKey bool
}

// Position is a place in a file.
type Position struct {
	File string
	// Line and Column count from 1; columns count characters.
	Line, Column int
	// Source is the text of the line.
	Source string
}

// IsZero reports whether the position is of no file.
func (p Position) IsZero() bool { return p.Line == 0 }

// String prints the problem and, if it is known, the line with a caret below it.
func (p Problem) String() string {
	text := p.Message
	if p.Path != "" {
		text = p.Path + ": " + text
	}
	if p.At.IsZero() {
		return text
	}
	return fmt.Sprintf("%s:%d:%d: %s\n%s", p.At.File, p.At.Line, p.At.Column, text, p.At.caret())
}

// maxSource is how much of a long line is drawn.
const maxSource = 160

// caret draws the line, or what of it is near the column, and points at the column.
func (p Position) caret() string {
	number := fmt.Sprintf("%4d", p.Line)
	source, column := window([]rune(p.Source), p.Column-1)
	return fmt.Sprintf("%s | %s\n%s | %s^", number, string(source), strings.Repeat(" ", len(number)), blank(source[:column]))
}

// window cuts a piece out of a line such that the column is in it.
func window(line []rune, column int) (piece []rune, at int) {
	column = max(0, min(column, len(line)))
	start := 0
	if len(line) > maxSource {
		start = max(0, min(column-maxSource/2, len(line)-maxSource))
	}
	return line[start:min(len(line), start+maxSource)], column - start
}

// blank is as wide as a text: tabs stay tabs.
func blank(text []rune) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, string(text))
}
