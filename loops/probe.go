package loops

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"starling.dev/starling/api"
)

// firstProbe is how soon a container is asked for the first time after its start. The
// time doubles up to the probe's period until the first good answer.
const firstProbe = 100 * time.Millisecond

// probeText says what the probe does, as people would name it.
func probeText(p api.Probe) string {
	switch {
	case p.HTTP != "":
		return "GET " + p.HTTP
	case p.TCP != 0:
		return fmt.Sprintf("TCP :%d", p.TCP)
	case p.GRPC != 0:
		return fmt.Sprintf("gRPC :%d", p.GRPC)
	}
	return strings.Join(p.Exec, " ")
}

// Pulse is what one run of a container has answered to its probes so far: pure
// counting, told of each answer and of the time. Whoever asks (the machine's daemon)
// takes the next question from [Pulse.Next] and gives the answer to [Pulse.Note].
type Pulse struct {
	container string
	counts    []count
	reported  Report
	told      bool
}

// count is one probe's answers in a row.
type count struct {
	probe     api.Probe
	due       time.Time
	delay     time.Duration
	counted   time.Time // when a bad answer was last counted
	good, bad int64
	known     bool // it came to passing or failing
	passing   bool
	last      string // the last bad answer
}

// Report is how a container is, as far as its probes tell.
type Report struct {
	// Ready: the startup and the readiness probe pass.
	Ready bool
	// Dead: the startup or the liveness probe failed, so that the container is to be
	// restarted.
	Dead bool
	// Code and Message say which probe fails, and why.
	Code, Message string
}

// NewPulse returns the pulse of a container that was just found running.
func NewPulse(c api.Container, now time.Time) *Pulse {
	p := &Pulse{container: c.Name}
	for _, probe := range c.Probes {
		p.counts = append(p.counts, count{probe: probe, delay: min(firstProbe, probe.Period), due: now.Add(min(firstProbe, probe.Period)), counted: now})
	}
	return p
}

// Next returns the probe to be asked next, and when; false when there is none. The
// startup probe is asked alone until it passes, and never again after that.
func (p *Pulse) Next() (probe api.Probe, at time.Time, ok bool) {
	starting := p.starting()
	for i := range p.counts {
		c := &p.counts[i]
		if (c.probe.Name == api.ProbeStartup) != starting {
			continue
		}
		if !ok || c.due.Before(at) {
			probe, at, ok = c.probe, c.due, true
		}
	}
	return probe, at, ok && !p.reported.Dead
}

func (p *Pulse) starting() bool {
	c := p.find(api.ProbeStartup)
	return c != nil && !c.passing
}

func (p *Pulse) find(name string) *count {
	i := slices.IndexFunc(p.counts, func(c count) bool { return c.probe.Name == name })
	if i < 0 {
		return nil
	}
	return &p.counts[i]
}

// Note takes an answer: nil for a good one, else what was wrong. It reports how the
// container is, and whether that is news: one answer alone rarely is.
func (p *Pulse) Note(probe string, now time.Time, bad error) (Report, bool) {
	c := p.find(probe)
	if c == nil {
		return p.reported, false
	}
	if bad == nil {
		c.takeGood(now)
	} else {
		c.takeBad(now, bad)
	}
	if probe == api.ProbeStartup && c.passing {
		p.begin(now)
	}
	r, known := p.report()
	news := known && (!p.told || r.Ready != p.reported.Ready || r.Dead != p.reported.Dead)
	if news {
		p.reported, p.told = r, true
	}
	return r, news
}

// begin starts the probes that the startup probe held back.
func (p *Pulse) begin(now time.Time) {
	for i := range p.counts {
		if c := &p.counts[i]; c.probe.Name != api.ProbeStartup {
			c.due, c.counted = now, now
		}
	}
}

func (c *count) takeGood(now time.Time) {
	c.good, c.bad = c.good+1, 0
	c.delay, c.due = c.probe.Period, now.Add(c.probe.Period)
	if c.good >= c.probe.Successes {
		c.known, c.passing = true, true
	} else if !c.known {
		c.due = now.Add(min(firstProbe, c.probe.Period)) // the answers are there for the asking
	}
}

// takeBad counts a bad answer. Those that come sooner than the period, at the start,
// count once in a period: a container has failures × period to give its first good one.
func (c *count) takeBad(now time.Time, bad error) {
	c.good, c.last = 0, bad.Error()
	if now.Sub(c.counted) >= c.probe.Period || c.known {
		c.bad++
		c.counted = now
	}
	if c.bad >= c.probe.Failures {
		c.known, c.passing = true, false
	}
	c.delay = min(2*c.delay, c.probe.Period)
	c.due = now.Add(c.delay)
}

// report judges the container; known is false as long as a probe that matters has not
// come to a verdict.
func (p *Pulse) report() (r Report, known bool) {
	for _, judge := range []struct {
		probe, code string
		fatal       bool
	}{
		{api.ProbeStartup, api.StartupFailed, true},
		{api.ProbeLiveness, api.LivenessFailed, true},
		{api.ProbeReadiness, api.ReadinessFailed, false},
	} {
		c := p.find(judge.probe)
		if c == nil || c.passing {
			continue
		}
		if !c.known && judge.probe == api.ProbeLiveness {
			continue // it has not failed, which is all that is asked of it
		}
		if !c.known {
			return Report{}, false
		}
		return Report{Dead: judge.fatal, Code: judge.code, Message: c.failure(p.container)}, true
	}
	return Report{Ready: true}, true
}

func (c *count) failure(container string) string {
	return fmt.Sprintf("the %s probe of container %s (%s) fails: %s", c.probe.Name, container, probeText(c.probe), c.last)
}
