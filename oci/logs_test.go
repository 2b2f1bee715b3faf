package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestLogsAcrossRestarts(t *testing.T) {
	f := newFixture(t)
	exits := f.watch()
	f.ensure(app("exit", "1", "the first run"))
	f.next(exits)
	f.ensure(app("exit", "2", "the second run"))
	f.next(exits)
	if all := f.lines("app", LogOptions{}); !inOrder(all, "the first run", "the second run") {
		t.Errorf("the whole log is %q", all)
	}
	previous := f.lines("app", LogOptions{Previous: true})
	if !slices.Contains(previous, "the first run") || slices.Contains(previous, "the second run") {
		t.Errorf("the previous run's log is %q", previous)
	}
	if last := f.lines("app", LogOptions{Tail: 1}); len(last) != 1 {
		t.Errorf("the last line is %q", last)
	}
	if later := f.lines("app", LogOptions{Since: time.Now().Add(time.Hour)}); len(later) != 0 {
		t.Errorf("lines of the future: %q", later)
	}
}

// inOrder tells whether wanted lines appear in a log in the given order.
func inOrder(lines []string, wanted ...string) bool {
	for _, w := range wanted {
		at := slices.Index(lines, w)
		if at < 0 {
			return false
		}
		lines = lines[at+1:]
	}
	return true
}

func TestLogIsBoundedAndFollowedOverRotation(t *testing.T) {
	limits := LogLimits{SegmentBytes: 64 << 10, Segments: 3}
	f := newFixture(t, func(c *Config) { c.Log = limits })
	// 20,000 lines of 50 bytes are 1.7 MB in the log, of which 192 KiB may stay.
	f.ensure(app("count", "20000", "50"))
	f.await("app", "waiting")
	list, err := segments(f.logDir(f.pod.ID, "app"))
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, s := range list {
		total += s.Size
		if s.Size > limits.SegmentBytes {
			t.Errorf("segment %s has %d bytes", s.name(), s.Size)
		}
	}
	if most := limits.SegmentBytes * int64(limits.Segments); total > most+limits.SegmentBytes || total < most/2 {
		t.Errorf("the log has %d bytes in %d segments; %d are allowed", total, len(list), most)
	}
	lines := f.lines("app", LogOptions{})
	if lines[len(lines)-1] != "waiting" || lines[len(lines)-2] != fmt.Sprintf("%050d", 19999) {
		t.Errorf("the log ends with %q", lines[len(lines)-2:])
	}
}

func TestFollowGoesOnWithTheNextRunAndEndsWithThePod(t *testing.T) {
	f := newFixture(t)
	seen, ended := make(chan LogLine, 64), make(chan error, 1)
	f.ensure(app())
	go func() {
		ended <- f.Logs(f.ctx, f.pod.ID, "app", LogOptions{Follow: true}, func(l LogLine) error {
			seen <- l
			return nil
		})
	}()
	first := f.line(seen, "waiting")
	f.pod.Rerun = "1"
	f.ensure(app())
	f.line(seen, "asked to stop")
	if second := f.line(seen, "waiting"); second.Run <= first.Run || second.Stream != Stdout || second.At.Before(first.At) {
		t.Errorf("the second run's line is %+v after %+v", second, first)
	}
	if err := f.Containers().Remove(f.ctx, f.pod.ID); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("following ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("following did not end with the pod")
	}
}

// line waits for a line with a text.
func (f *fixture) line(seen <-chan LogLine, text string) LogLine {
	f.t.Helper()
	for {
		select {
		case l := <-seen:
			if l.Text == text {
				return l
			}
		case <-time.After(10 * time.Second):
			f.t.Fatalf("the line %q did not come", text)
		}
	}
}

func TestLogOfWhatNeverRan(t *testing.T) {
	f := newBareFixture(t)
	err := f.Logs(f.ctx, "abc", "app", LogOptions{}, func(LogLine) error { return nil })
	if !errors.Is(err, ErrNoLog) {
		t.Errorf("Logs returned %v", err)
	}
}

// A workload must not notice that its log can't be written.
func TestLoggerSurvivesADiskThatDoesNotTake(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, 0) })
	w, err := newLogWriter(dir, 1, LogLimits{SegmentBytes: 1 << 20, Segments: 4}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	w.write(codeStdout, []byte("before\n"), false)
	// The disk is now full but for what the segment's own page holds.
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
	long := []byte(strings.Repeat("x", 8000) + "\n")
	w.write(codeStdout, long, false)
	w.write(codeStdout, long, false)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	w.write(codeStdout, []byte("after\n"), false)
	w.end()
	lines, err := tailRun(dir, 1, 10)
	want := []string{"before", "[2 lines of output were lost: the log could not be written]", "after"}
	if err != nil || !slices.Equal(lines, want) {
		t.Errorf("the log is %q, %v; want %q", lines, err, want)
	}
}

func TestTailReadsOverSegments(t *testing.T) {
	dir := t.TempDir()
	w, err := newLogWriter(dir, 7, LogLimits{SegmentBytes: 100, Segments: 100}, func() time.Time { return time.Unix(1, 0) })
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for n := range 10 {
		want = append(want, fmt.Sprint("line ", n))
		w.write(codeStderr, []byte(want[n]+"\n"), false)
	}
	w.end()
	list, err := segments(dir)
	if err != nil || len(list) < 4 {
		t.Fatalf("segments: %v, %v", list, err)
	}
	var got []string
	_, err = readSegments(context.Background(), dir, list, LogOptions{Tail: 6}, func(l LogLine) error {
		got = append(got, l.Text)
		return nil
	})
	if err != nil || !slices.Equal(got, want[4:]) {
		t.Errorf("the last 6 lines are %q, %v", got, err)
	}
}
