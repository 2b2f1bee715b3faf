package oci

import (
	"bytes"
	"errors"
	"time"
)

// Streams of a log line.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// LogLine is one line of a container's output.
type LogLine struct {
	At     time.Time
	Stream string // Stdout or Stderr
	// Run is the generation that wrote it: it grows with each start.
	Run  uint64
	Text string
	// Partial: the line goes on in the next one of its stream.
	Partial bool
}

// A line in a segment is "TIME S F TEXT\n": the time in UTC with nine digits, which
// has a fixed width, the stream (o, e), and whether the line is full (f) or goes on
// (p). A run that has ended closes with the stream x.
const (
	logTimeLayout = "2006-01-02T15:04:05.000000000Z"
	logHeader     = len(logTimeLayout) + len(" o f ")

	codeStdout = 'o'
	codeStderr = 'e'
	codeEnd    = 'x'
	codeFull   = 'f'
	codePart   = 'p'
)

// maxLogLine is where a line without an end is cut: a program that writes no line
// ends must not grow the logger.
const maxLogLine = 16 << 10

// appendLogLine writes one line in the segment's format.
func appendLogLine(to []byte, at time.Time, stream byte, partial bool, text []byte) []byte {
	to = at.UTC().AppendFormat(to, logTimeLayout)
	full := byte(codeFull)
	if partial {
		full = codePart
	}
	to = append(to, ' ', stream, ' ', full, ' ')
	to = append(to, text...)
	return append(to, '\n')
}

var errLogLine = errors.New("not a line of a log segment")

// parseLogLine reads a line without its end. ended is true for a run's closing line.
func parseLogLine(line []byte) (l LogLine, ended bool, err error) {
	if len(line) < logHeader {
		return LogLine{}, false, errLogLine
	}
	at, err := time.Parse(logTimeLayout, string(line[:len(logTimeLayout)]))
	if err != nil {
		return LogLine{}, false, errLogLine
	}
	marks := line[len(logTimeLayout):logHeader]
	if marks[0] != ' ' || marks[2] != ' ' || marks[4] != ' ' {
		return LogLine{}, false, errLogLine
	}
	l = LogLine{At: at, Text: string(line[logHeader:]), Partial: marks[3] == codePart}
	switch marks[1] {
	case codeStdout:
		l.Stream = Stdout
	case codeStderr:
		l.Stream = Stderr
	case codeEnd:
		return l, true, nil
	default:
		return LogLine{}, false, errLogLine
	}
	return l, false, nil
}

// splitOutput cuts output into the text of one line and the rest. ok is false if more
// is needed to know; partial if the line was cut.
func splitOutput(output []byte) (text, rest []byte, partial, ok bool) {
	at := bytes.IndexByte(output, '\n')
	switch {
	case at >= 0 && at <= maxLogLine:
		return output[:at], output[at+1:], false, true
	case len(output) > maxLogLine:
		return output[:maxLogLine], output[maxLogLine:], true, true
	}
	return nil, output, false, false
}
