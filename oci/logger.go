package oci

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Files that containerd's shim hands to a logger process.
const (
	fdStdout = 3
	fdStderr = 4
	// fdReady is closed, after one byte, to say that the container may be created.
	fdReady = 5
)

// drainTime is how long the logger goes on reading after it was told to end: what is
// in the pipes by then is all that there will be.
const drainTime = 2 * time.Second

// RunLogger is the whole of `peer logger ARG`, the process that containerd's shim
// starts beside a task to take its output. ARG comes from loggerArgs. It returns when
// the output has ended, and writes nothing to its own output.
func RunLogger(args []string) error {
	if len(args) != 1 {
		return errors.New("peer logger is started by containerd, with one argument")
	}
	dir, run, limits, err := parseLoggerArg(args[0])
	if err != nil {
		return err
	}
	// The process lives as long as the container: keep it small.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(25)
	streams, err := openStreams()
	if err != nil {
		return err
	}
	endOnSignal(streams)
	writer, err := newLogWriter(dir, run, limits, time.Now)
	if err != nil {
		return err
	}
	if err := reportReady(); err != nil {
		return err
	}
	copyStreams(streams, writer)
	return nil
}

// copyStreams writes both streams until they end, and then the run's end.
func copyStreams(streams map[byte]*os.File, writer *logWriter) {
	var group sync.WaitGroup
	for code, stream := range streams {
		group.Go(func() { copyStream(stream, code, writer) })
	}
	group.Wait()
	writer.end()
}

// copyStream writes one stream until it ends.
func copyStream(from io.Reader, code byte, to *logWriter) {
	buffer := make([]byte, 2*maxLogLine)
	held := 0
	for {
		n, err := from.Read(buffer[held:])
		rest := to.write(code, buffer[:held+n], err != nil)
		held = copy(buffer, rest)
		if err != nil {
			return
		}
	}
}

// parseLoggerArg reads what loggerArgs wrote.
func parseLoggerArg(arg string) (dir string, run uint64, limits LogLimits, err error) {
	target, err := url.Parse(arg)
	if err != nil {
		return "", 0, limits, fmt.Errorf("read the logger's argument: %w", err)
	}
	query := target.Query()
	run, err = strconv.ParseUint(query.Get("run"), 10, 64)
	if err != nil {
		return "", 0, limits, fmt.Errorf("read the logger's run %q: %w", query.Get("run"), err)
	}
	// Limits that are missing or malformed are the defaults.
	limits.SegmentBytes, _ = strconv.ParseInt(query.Get("bytes"), 10, 64)
	limits.Segments, _ = strconv.Atoi(query.Get("segments"))
	return target.Path, run, limits.withDefaults(), nil
}

// openStreams makes the pipes non-blocking first, which gives them deadlines.
func openStreams() (map[byte]*os.File, error) {
	streams := map[byte]*os.File{}
	for code, fd := range map[byte]int{codeStdout: fdStdout, codeStderr: fdStderr} {
		if err := syscall.SetNonblock(fd, true); err != nil {
			return nil, fmt.Errorf("take over the container's output: %w; peer logger is started by containerd", err)
		}
		streams[code] = os.NewFile(uintptr(fd), "output")
	}
	return streams, nil
}

// endOnSignal limits the reading once the shim asks the logger to end. The shim has
// closed its side by then, so what is left in the pipes is read, not lost.
func endOnSignal(streams map[byte]*os.File) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	go func() {
		<-asked
		for _, stream := range streams {
			// An error means that it is closed: then nothing is left to end.
			_ = stream.SetReadDeadline(time.Now().Add(drainTime))
		}
	}()
}

// reportReady lets the shim go on. Servers before 1.7 look for the closing only,
// later ones for a byte before it.
func reportReady() error {
	ready := os.NewFile(fdReady, "ready")
	if _, err := ready.Write([]byte{0}); err != nil {
		return fmt.Errorf("tell containerd that the logger is ready: %w", err)
	}
	return ready.Close()
}
