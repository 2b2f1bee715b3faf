package logbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"starling.dev/starling/internal/bench/report"
	"starling.dev/starling/internal/bench/rig"
	"starling.dev/starling/internal/heap"
	"starling.dev/starling/peer"
)

// RoleEnv tells the program that it is another process: the measured one, of the directory
// named, or one that serves.
const RoleEnv = "STARLING_BENCH_MEASURE"

// measured is what the other process reports.
type measured struct {
	ReadyMs, CPUMs, SettledMs float64
	HeapMiB, RSSMiB, PeakMiB  float64
	// RestPercent is the processor time at rest, in percent of a core.
	RestPercent float64
	Objects     int
}

// restFor is how long a peer at rest is watched, once nothing is left to do.
const restFor = 2 * time.Minute

// targets by number of objects: memory in MiB.
var memoryTargets = map[int]float64{0: 60, 10_000: 90, 100_000: 250}

// size measures restart and memory with so many pods at rest on another machine.
func (b *bench) size(ctx context.Context, objects int) error {
	dir := filepath.Join(b.dir, fmt.Sprintf("size-%d", objects))
	if _, err := rig.Fill(ctx, dir, 2, objects, b.logger); err != nil {
		return fmt.Errorf("fill %d objects: %w", objects, err)
	}
	defer os.RemoveAll(dir)
	if _, err := measure(ctx, dir, 0); err != nil { // the first start may find work to do
		return err
	}
	m, err := measure(ctx, dir, restFor)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%d objects: ", objects)
	target := memoryTargets[objects]
	limit := ""
	if target > 0 {
		limit = fmt.Sprintf("<= %.0f MB", target)
	}
	b.row(what+"resident memory of the process", limit, fmt.Sprintf("%.0f MiB (heap %.0f, peak %.0f)", m.RSSMiB, m.HeapMiB, m.PeakMiB), report.Of(m.RSSMiB*1.048576, target))
	b.row(what+"restart until it answers", "<= 2 s with 100,000", fmt.Sprintf("%.2f s (all at rest after %.2f s, CPU %.2f s)", m.ReadyMs/1000, m.SettledMs/1000, m.CPUMs/1000), report.Of(m.ReadyMs, 2000))
	b.row(what+"processor time at rest, over "+restFor.String(), "< 1 % of a core with 100,000", fmt.Sprintf("%.2f %%", m.RestPercent), report.Of(m.RestPercent, 1))
	return nil
}

// measure starts this program once more, as the measured process, which rests for a while.
func measure(ctx context.Context, dir string, rest time.Duration) (m measured, err error) {
	self, err := os.Executable()
	if err != nil {
		return m, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), RoleEnv+"="+dir, "STARLING_BENCH_START="+strconv.FormatInt(time.Now().UnixMicro(), 10), "STARLING_BENCH_REST="+rest.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return m, fmt.Errorf("measure a process on %s: %w", dir, err)
	}
	if err := json.Unmarshal(out, &m); err != nil {
		return m, fmt.Errorf("read what the process measured: %w", err)
	}
	return m, nil
}

// Child is what another process does, by its role.
func Child(role string) error {
	heap.Pace() // as the daemon does
	if role == roleServe {
		return serve()
	}
	return child(role)
}

// child is the measured process: it opens the directory as a peer does, answers a first
// question, looks at every object, and prints what that took.
func child(dir string) (err error) {
	micros, err := strconv.ParseInt(os.Getenv("STARLING_BENCH_START"), 10, 64)
	if err != nil {
		return fmt.Errorf("read when this process was started: %w", err)
	}
	start := time.UnixMicro(micros)
	r, err := rig.Open(rig.Config{Dir: dir, Machine: 2, Machines: 2, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	r.Start()
	ctx := context.Background()
	var m measured
	if err := r.Loop.Query(ctx, func(c *peer.Core) { m.Objects = len(c.Keys()) }); err != nil {
		return err
	}
	m.ReadyMs = msSince(start)
	if err := r.AtRest(ctx); err != nil {
		return err
	}
	m.SettledMs = msSince(start)
	if m.CPUMs, err = cpuMs(); err != nil {
		return err
	}
	debug.FreeOSMemory()
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	m.HeapMiB = float64(heap.HeapAlloc) / (1 << 20)
	if err := errors.Join(m.readMemory(), m.rest()); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(m)
}

// rest watches what the process uses while nothing happens.
func (m *measured) rest() error {
	long, err := time.ParseDuration(os.Getenv("STARLING_BENCH_REST"))
	if err != nil || long == 0 {
		return err
	}
	before, err := cpuMs()
	if err != nil {
		return err
	}
	start := time.Now()
	time.Sleep(long)
	after, err := cpuMs()
	m.RestPercent = 100 * (after - before) / msSince(start)
	return err
}

// cpuMs is the processor time of this process so far.
func cpuMs() (float64, error) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0, fmt.Errorf("ask for the CPU time: %w", err)
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e6, nil
}

func msSince(start time.Time) float64 { return float64(time.Since(start).Microseconds()) / 1000 }

func (m *measured) readMemory() error {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return fmt.Errorf("read this process's memory: %w", err)
	}
	fields := map[string]*float64{"VmRSS": &m.RSSMiB, "VmHWM": &m.PeakMiB}
	for line := range strings.Lines(string(data)) {
		name, rest, _ := strings.Cut(line, ":")
		words := strings.Fields(rest)
		if into, wanted := fields[name]; wanted && len(words) > 0 {
			kib, err := strconv.ParseFloat(words[0], 64)
			if err != nil {
				return fmt.Errorf("read %s: %w", name, err)
			}
			*into = kib / 1024
		}
	}
	return nil
}
