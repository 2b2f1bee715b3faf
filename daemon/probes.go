package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
	"starling.dev/starling/peer"
)

// prober asks the containers of this machine how they are, as their specs say. Answers
// stay here; the core is told when what they amount to changes.
type prober struct {
	loop *peer.Loop
	// dial opens a connection to a port of a pod on this machine.
	dial func(ctx context.Context, podID string, port uint16) (net.Conn, error)
	// exec runs a command in a container, and returns its exit code and output.
	exec func(ctx context.Context, podID, container string, args []string) (uint32, string, error)
	// condemn has a container replaced when its step runs again.
	condemn func(ctx context.Context, podID, container string) error
	log     *slog.Logger
}

// watch is one run of a container that has probes.
type watch struct {
	key        api.Key
	id         string
	container  api.Container
	generation string
}

// name tells watches apart: with another run, or other probes, asking begins anew.
func (w watch) name() string {
	return fmt.Sprint(w.id, w.container.Name, w.generation, w.container.Probes)
}

// requery is the pause after which a core that can't be read now is asked again.
const requery = 2 * time.Second

// Run follows which containers run here until the context ends.
func (p *prober) Run(ctx context.Context) error {
	running := map[string]context.CancelFunc{}
	var watches sync.WaitGroup
	defer watches.Wait()
	for {
		turned := p.loop.Turned()
		if wanted, err := p.wanted(ctx); err == nil {
			p.follow(ctx, running, wanted, &watches)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-turned:
		case <-time.After(requery): // a core that was rebuilt tells of no turn
		}
	}
}

func (p *prober) String() string { return "probes" }

func (p *prober) follow(ctx context.Context, running map[string]context.CancelFunc, wanted map[string]watch, watches *sync.WaitGroup) {
	for name, cancel := range running {
		if _, ok := wanted[name]; !ok {
			cancel()
			delete(running, name)
		}
	}
	for name, w := range wanted {
		if _, ok := running[name]; ok {
			continue
		}
		one, cancel := context.WithCancel(ctx)
		running[name] = cancel
		watches.Go(func() { p.watch(one, w) })
	}
}

// wanted lists the containers with probes that run here.
func (p *prober) wanted(ctx context.Context) (map[string]watch, error) {
	list := map[string]watch{}
	return list, p.loop.Query(ctx, func(c *peer.Core) {
		for _, o := range c.Here() {
			for _, w := range watchesOf(o) {
				list[w.name()] = w
			}
		}
	})
}

func watchesOf(o *lifecycle.Object) (list []watch) {
	if o.Key.Kind != "Pod" || o.Deleted {
		return nil
	}
	pod, err := api.DecodePod(o.Fields)
	if err != nil {
		return nil // what the fold lets through is of the right types
	}
	var status api.Fields
	for _, c := range pod.Spec.Containers {
		if len(c.Probes) == 0 {
			continue
		}
		if status == nil {
			status = o.Status()
		}
		if status.Int(api.Child("status.containers", c.Name)+".pid") != 0 {
			list = append(list, watch{o.Key, o.ID, c, loops.Generation(status, c.Name)})
		}
	}
	return list
}

// watch asks one run of a container until the context ends, or until it is condemned.
func (p *prober) watch(ctx context.Context, w watch) {
	pulse := loops.NewPulse(w.container, time.Now())
	for {
		probe, at, ok := pulse.Next()
		if !ok || !sleep(ctx, time.Until(at)) {
			return
		}
		err := p.ask(ctx, w, probe)
		if ctx.Err() != nil {
			return
		}
		now := time.Now()
		report, news := pulse.Note(probe.Name, now, err)
		if !news {
			continue
		}
		p.loop.Post(ctx, peer.Probed{Key: w.key, ID: w.id, Container: w.container.Name, Health: loops.Health{Generation: w.generation, Report: report}})
		if report.Dead {
			p.end(ctx, w, report, now)
		}
	}
}

// condemnAgain is the pause after a container runtime did not answer.
const condemnAgain = time.Second

// end has a dead container replaced: it is condemned, and its step fails.
func (p *prober) end(ctx context.Context, w watch, r loops.Report, at time.Time) {
	for {
		err := p.condemn(ctx, w.id, w.container.Name)
		if err == nil {
			break
		}
		p.log.Warn("can't end a container whose probe failed", "object", w.key, "error", err)
		if !sleep(ctx, condemnAgain) {
			return
		}
	}
	p.loop.Post(ctx, peer.Lost{Key: w.key, ID: w.id, Step: "container", At: at, Code: r.Code, Message: r.Message})
}

// sleep waits, and reports whether it did so to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// prober returns the task that asks this machine's containers.
func (d *Daemon) prober() *prober {
	return &prober{
		loop: d.loop, dial: serverNetwork{d}.Dial, exec: probeExec(d.runtime), condemn: d.runtime.Condemn,
		log: d.cfg.Logger.With("part", "probes"),
	}
}
