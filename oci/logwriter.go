package oci

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// logWriter writes the segments of one run. It keeps taking output when the disk does
// not: a workload must not block, or die, because its log can't be written. What was
// lost is counted and said once writing works again.
type logWriter struct {
	dir    string
	limits LogLimits
	now    func() time.Time

	mu     sync.Mutex
	file   *os.File // nil if it could not be opened
	part   segment  // the open segment, with its size
	lost   int      // lines
	buffer []byte
}

// newLogWriter opens the run's next segment, so that the run is known from its
// beginning.
func newLogWriter(dir string, run uint64, limits LogLimits, now func() time.Time) (*logWriter, error) {
	w := &logWriter{dir: dir, limits: limits, now: now, part: segment{Run: run}}
	list, err := segments(dir)
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		if s.Run == run {
			w.part.Part = s.Part
		}
	}
	return w, w.next()
}

// next closes the segment, opens another, and removes what is then too much.
func (w *logWriter) next() error {
	if w.file != nil {
		w.file.Close()
		w.file = nil
	}
	w.part = segment{Run: w.part.Run, Part: w.part.Part + 1}
	file, err := os.OpenFile(filepath.Join(w.dir, w.part.name()), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return fmt.Errorf("open a log segment: %w", err)
	}
	w.file = file
	return prune(w.dir, w.part, w.limits)
}

// write takes a stream's output and returns what is left of it: the beginning of a
// line that has not ended. final: nothing follows, so that is a line too.
func (w *logWriter) write(stream byte, output []byte, final bool) (rest []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.now()
	w.buffer = w.buffer[:0]
	lines := 0
	for {
		text, left, partial, ok := splitOutput(output)
		if !ok {
			break
		}
		w.buffer = appendLogLine(w.buffer, at, stream, partial, text)
		output = left
		lines++
	}
	if final && len(output) > 0 {
		w.buffer = appendLogLine(w.buffer, at, stream, false, output)
		output = nil
		lines++
	}
	w.flush(at, lines)
	return output
}

// end writes the run's closing line.
func (w *logWriter) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buffer = appendLogLine(w.buffer[:0], w.now(), codeEnd, false, nil)
	w.flush(w.now(), 0)
	if w.file != nil {
		w.file.Close()
	}
}

// flush appends the buffer to the segment as one write, so that readers see whole
// lines.
func (w *logWriter) flush(at time.Time, lines int) {
	if len(w.buffer) == 0 {
		return
	}
	if w.lost > 0 {
		note := fmt.Sprintf("[%d lines of output were lost: the log could not be written]", w.lost)
		w.buffer = append(appendLogLine(nil, at, codeStderr, false, []byte(note)), w.buffer...)
	}
	if err := w.append(); err != nil {
		w.lost += lines
		return
	}
	w.lost = 0
}

func (w *logWriter) append() error {
	if w.file == nil || (w.part.Size > 0 && w.part.Size+int64(len(w.buffer)) > w.limits.SegmentBytes) {
		if err := w.next(); err != nil && w.file == nil {
			return err
		}
	}
	n, err := w.file.Write(w.buffer)
	if err == nil {
		w.part.Size += int64(n)
		return nil
	}
	// Take back a torn line, so that the next one begins at its beginning.
	if terr := w.file.Truncate(w.part.Size); terr != nil && !errors.Is(terr, fs.ErrClosed) {
		return errors.Join(err, terr)
	}
	return err
}
