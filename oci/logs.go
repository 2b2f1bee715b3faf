package oci

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// LogOptions say which lines of a log are wanted. The zero value: all that is kept,
// over all runs.
type LogOptions struct {
	// Follow goes on with new lines, also those of later runs, until ctx is done or
	// the pod is gone.
	Follow bool
	// Previous: only the run before the latest.
	Previous bool
	// Tail: only this many lines of those that exist; 0: all.
	Tail int
	// Since: only lines at or after it.
	Since time.Time
}

// ErrNoLog is returned for a container that has never run on this machine.
var ErrNoLog = errors.New("there is no log")

// Logs calls each with the lines of a container's log, in order, until it returns an
// error, which Logs returns.
func (r *Runtime) Logs(ctx context.Context, podID, container string, o LogOptions, each func(LogLine) error) error {
	if !namePattern.MatchString(podID) || !namePattern.MatchString(container) {
		return fmt.Errorf("read the log of container %q of pod %q: %w", container, podID, ErrNoLog)
	}
	dir := r.logDir(podID, container)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the log of container %s of pod %s: %w on this machine; it has never run here", container, podID, ErrNoLog)
	}
	if o.Follow && !o.Previous {
		return followLog(ctx, dir, o, each)
	}
	list, err := segments(dir)
	if err != nil {
		return err
	}
	if o.Previous {
		list = previousRun(list)
	}
	_, err = readSegments(ctx, dir, list, o, each)
	return err
}

// previousRun keeps the segments of the run before the latest.
func previousRun(list []segment) []segment {
	if len(list) == 0 {
		return nil
	}
	latest, previous := list[len(list)-1].Run, uint64(0)
	for _, s := range list {
		if s.Run < latest {
			previous = s.Run
		}
	}
	return slices.DeleteFunc(list, func(s segment) bool { return s.Run != previous })
}

// cursor is a place in a log: what lies before it has been read.
type cursor struct {
	at     segment
	offset int64
	// ended: the run's closing line was read.
	ended bool
}

// readSegments reads whole segments and returns where it ended. A segment that was
// removed meanwhile is passed over.
func readSegments(ctx context.Context, dir string, list []segment, o LogOptions, each func(LogLine) error) (cursor, error) {
	take := each
	var last []LogLine
	if o.Tail > 0 {
		take = func(l LogLine) error {
			if len(last) == o.Tail {
				last = last[1:]
			}
			last = append(last, l)
			return nil
		}
	}
	var at cursor
	for _, s := range list {
		if err := ctx.Err(); err != nil {
			return at, err
		}
		at = cursor{at: s}
		if err := at.read(dir, o.Since, take); err != nil {
			return at, err
		}
	}
	for _, l := range last {
		if err := each(l); err != nil {
			return at, err
		}
	}
	return at, nil
}

// read goes on from the cursor to the present end of its segment. A line whose end is
// not yet written stays for the next time, and one that can't be parsed is passed over.
func (c *cursor) read(dir string, since time.Time, each func(LogLine) error) error {
	file, err := os.Open(filepath.Join(dir, c.at.name()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read a log segment: %w", err)
	}
	defer file.Close()
	if _, err := file.Seek(c.offset, io.SeekStart); err != nil {
		return fmt.Errorf("read a log segment: %w", err)
	}
	lines := bufio.NewReaderSize(file, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a log segment: %w", err)
		}
		c.offset += int64(len(line))
		parsed, ended, err := parseLogLine(bytes.TrimSuffix(line, []byte("\n")))
		c.ended = c.ended || ended
		if err != nil || ended || parsed.At.Before(since) {
			continue
		}
		parsed.Run = c.at.Run
		if err := each(parsed); err != nil {
			return err
		}
	}
}

// tailRun returns the text of a run's last lines.
func tailRun(dir string, run uint64, count int) ([]string, error) {
	list, err := segments(dir)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(s segment) bool { return s.Run != run })
	list = list[max(0, len(list)-2):]
	var lines []string
	_, err = readSegments(context.Background(), dir, list, LogOptions{Tail: count}, func(l LogLine) error {
		lines = append(lines, l.Text)
		return nil
	})
	return lines, err
}
