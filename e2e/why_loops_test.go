package e2e

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/loop"
)

// attach runs a loop on every machine until the test ends or it is stopped.
func (c *cluster) attach(t *testing.T, l loop.Loop) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, machines)
	for n := 1; n <= machines; n++ {
		go func() {
			ended <- loop.Run(ctx, loop.Config{Socket: c.lab.Socket(n), Loop: l, Logger: slog.New(slog.DiscardHandler)})
		}()
	}
	running := machines
	stop = func() {
		cancel()
		for ; running > 0; running-- {
			if err := <-ended; err != nil {
				t.Errorf("loop %s: %v", l.Name, err)
			}
		}
	}
	t.Cleanup(stop)
	return stop
}

// only has a step concern the pod of one cause: all others pass it at once.
func only(cause string, do func(context.Context, loop.Call) error) func(context.Context, loop.Call) error {
	pod := "why-" + cause
	return func(ctx context.Context, call loop.Call) error {
		if call.Object.Name != pod {
			return nil
		}
		return do(ctx, call)
	}
}

func step(name string, timeout time.Duration, do func(context.Context, loop.Call) error) loop.Step {
	return loop.Step{
		Name: name, Kind: "Pod", Requires: []string{"admit"}, Before: []string{"storage"}, RequiredBy: []string{"storage"}, Timeout: timeout,
		Do: func(ctx context.Context, call loop.Call) (loop.Fields, error) { return nil, do(ctx, call) },
	}
}

// hang is what a call to a dead server does.
func hang(ctx context.Context, _ loop.Call) error {
	<-ctx.Done()
	return ctx.Err()
}

// slowly is how long the step scan:image takes for every pod.
const slowly = time.Second

// undoable ends what keeps the step keep:lock from being taken back.
var undoable atomic.Bool

// withLoops attaches the loops that the causes of this group are about.
func withLoops(t *testing.T, c *cluster) {
	t.Helper()
	undoable.Store(false)
	mount := step("mount", 5*time.Minute, only("step-hanging", hang))
	c.attach(t, loop.Loop{Name: "nfs", Steps: []loop.Step{mount}})

	deadline := step("deadline", time.Second, only("step-timed-out", hang))
	quota := step("quota", time.Minute, only("step-retried-with-backoff", func(context.Context, loop.Call) error {
		return errors.New("the quota server answers 503")
	}))
	flood := step("flood", time.Minute, nil)
	flood.Outputs = []string{"status.loops.gate"}
	flood.Do = func(_ context.Context, call loop.Call) (loop.Fields, error) {
		out := loop.Fields{}
		if call.Object.Name == "why-step-that-says-too-much" {
			out["status.loops.gate.all"] = api.Str(strings.Repeat("x", 3<<20))
		}
		return out, nil
	}
	c.attach(t, loop.Loop{Name: "gate", Steps: []loop.Step{deadline, quota, flood}})

	nothing := func(context.Context, loop.Call) error { return nil }
	lock, drop := step("lock", time.Minute, nothing), step("drop", time.Minute, nothing)
	lock.Undo = only("deletion-blocked-by-a-step", hang)
	drop.Undo = only("deletion-that-a-step-refuses", func(context.Context, loop.Call) error {
		if undoable.Load() {
			return nil
		}
		return errors.New("the lock is held by a backup")
	})
	c.attach(t, loop.Loop{Name: "keep", Steps: []loop.Step{lock, drop}})
	c.remove(t, "step/nfs-mount", "step/gate-deadline", "step/gate-quota", "step/gate-flood", "step/keep-lock", "step/keep-drop")
	for _, s := range []string{"nfs-mount", "gate-deadline", "gate-quota", "gate-flood", "keep-lock", "keep-drop"} {
		for n := 1; n <= machines; n++ {
			c.awaitReady(t, n, "step/"+s)
		}
	}
}

// delete takes the object down, once it is up.
func deleted(t *testing.T, c *cluster, key string) {
	t.Helper()
	c.awaitReady(t, 1, key)
	c.must(t, 2, "delete", key)
}

func loopCauses() []cause {
	return []cause{
		{
			name: "step hanging", verdict: "progressing",
			says: `: nfs:mount has been running on m\d for [\d.]+m?s, and may take until [\d:]+; (lately it took [\d.]+m?s \(the median of \d+ runs\)|it has not succeeded anywhere lately)\n`,
			todo: "Look after the program of loop nfs on m", step: "nfs:mount is running on m",
		}, {
			name: "step timed out",
			says: `: gate:deadline on m\d: it did not end within 1s: foreign loop gate did not answer; it is tried again in [\d.]+m?s \(failure \d+ in a row\)`,
			todo: "Look after what it works on", step: "gate:deadline is retrying on m",
		}, {
			name: "step retried with backoff",
			says: `: gate:quota on m\d: the quota server answers 503; it is tried again in [\d.]+m?s \(failure [2-9] in a row\)`,
			todo: "Read the message", step: "gate:quota is retrying on m",
		}, {
			name: "step that says too much",
			says: `: gate:flood on m\d: step gate:flood returned 1 outputs of \d+ bytes; at most 512 of 65536 bytes are kept, so return less, .*; it is tried again in`,
			todo: "Move large values", step: "gate:flood is retrying on m",
		}, {
			name: "deletion blocked by a step", verdict: "progressing", after: deleted,
			says: `: keep:lock (has been taken down on m\d for [\d.]+m?s so far, and that may take until [\d:]+|is being taken down on m\d, for [\d.]+m?s so far)\n`,
			todo: "--skip keep:lock", step: "keep:lock is undoing on m",
			mend: func(t *testing.T, c *cluster, key string) {
				c.must(t, 3, "switch", key, "deleted", "--skip", "keep:lock")
			}, gone: true,
		}, {
			name: "deletion that a step refuses", after: deleted,
			says: `: taking keep:drop down on m\d failed: the lock is held by a backup; it is tried again in [\d.]+m?s`,
			todo: "--skip keep:drop", step: "keep:drop is undoing on m",
			mend: func(*testing.T, *cluster, string) { undoable.Store(true) }, gone: true,
		},
	}
}

// detachedCauses concern every pod, so that each has the lab for itself.
func detachedCauses() []cause {
	return []cause{
		{
			name: "foreign loop slow", verdict: "progressing", stage: slowScans, pod: podSpec{args: serve},
			says: `: scan:image has been running on m\d for [\d.]+m?s, and may take until [\d:]+; lately it took 1(\.\d+)?s \(the median of \d+ runs\)`,
			todo: "Look after the program of loop scan on m", step: "scan:image is running on m",
		}, {
			name: "foreign loop disconnected", pod: podSpec{args: serve},
			stage: func(t *testing.T, c *cluster) {
				stop := c.attach(t, loop.Loop{Name: "gone", Steps: []loop.Step{step("work", time.Minute, hang)}})
				c.remove(t, "step/gone-work")
				for n := 1; n <= machines; n++ {
					c.awaitReady(t, n, "step/gone-work")
				}
				stop()
			},
			says: `: gone:work: foreign loop gone is not attached on m\d; start its program there`,
			todo: "Start the program there", step: "gone:work is blocked on m",
			mend: func(t *testing.T, c *cluster, _ string) {
				c.attach(t, loop.Loop{Name: "gone", Steps: []loop.Step{step("work", time.Minute, func(context.Context, loop.Call) error { return nil })}})
			},
		},
	}
}

// slowScans has a loop that takes its time for every pod, and lets it finish some.
func slowScans(t *testing.T, c *cluster) {
	t.Helper()
	do := func(ctx context.Context, call loop.Call) error {
		for_ := slowly
		if call.Object.Name == "why-foreign-loop-slow" {
			for_ = 5 * time.Minute
		}
		select {
		case <-time.After(for_):
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	c.attach(t, loop.Loop{Name: "scan", Steps: []loop.Step{step("image", 10*time.Minute, do)}})
	c.remove(t, "step/scan-image", "why-scanned", "why-scanned-too")
	for n := 1; n <= machines; n++ {
		c.awaitReady(t, n, "step/scan-image")
	}
	c.apply(t, 1, "alice", set(podSpec{name: "why-scanned", args: serve}, podSpec{name: "why-scanned-too", args: serve}))
	for n := 1; n <= machines; n++ {
		c.awaitReady(t, n, "why-scanned")
		c.awaitReady(t, n, "why-scanned-too")
	}
}
