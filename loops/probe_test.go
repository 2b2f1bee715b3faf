package loops

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"starling.dev/starling/api"
)

// asked drives a pulse in virtual time with a container that answers as told.
type asked struct {
	pulse *Pulse
	now   time.Time
	start time.Time
	log   []string
}

func ask(probes ...api.Probe) *asked {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range probes {
		p := &probes[i]
		if p.Period == 0 {
			p.Period = 10 * time.Second
		}
		p.Failures, p.Successes = max(p.Failures, 1), max(p.Successes, 1)
		p.HTTP = ":8080/" + p.Name
	}
	return &asked{pulse: NewPulse(api.Container{Name: "app", Probes: probes}, now), now: now, start: now}
}

// until asks and answers until the time, and logs what was news.
func (a *asked) until(t *testing.T, at time.Duration, answer func(probe string, at time.Duration) error) {
	t.Helper()
	for range 10_000 {
		probe, due, ok := a.pulse.Next()
		if !ok || due.Sub(a.start) > at {
			return
		}
		if due.Before(a.now) {
			due = a.now
		}
		a.now = due
		r, news := a.pulse.Note(probe.Name, due, answer(probe.Name, due.Sub(a.start)))
		if news {
			a.log = append(a.log, fmt.Sprintf("%s ready=%t dead=%t %s", due.Sub(a.start), r.Ready, r.Dead, r.Code))
		}
	}
	t.Fatal("the container is asked without end")
}

func (a *asked) wantLog(t *testing.T, want ...string) {
	t.Helper()
	if fmt.Sprint(a.log) != fmt.Sprint(want) {
		t.Errorf("reported %q, want %q", a.log, want)
	}
}

var errRefused = errors.New("answered 503 Service Unavailable")

func from(good time.Duration) func(string, time.Duration) error {
	return func(_ string, at time.Duration) error {
		if at < good {
			return errRefused
		}
		return nil
	}
}

func TestReadySoonAfterItIs(t *testing.T) {
	a := ask(api.Probe{Name: api.ProbeReadiness, Failures: 3})
	a.until(t, time.Minute, from(500*time.Millisecond))
	a.wantLog(t, "700ms ready=true dead=false ") // asked at 100, 300, 700 ms
}

func TestReadinessComesAndGoes(t *testing.T) {
	a := ask(api.Probe{Name: api.ProbeReadiness, Failures: 2, Successes: 2})
	a.until(t, 2*time.Minute, func(_ string, at time.Duration) error {
		if at > 25*time.Second && at < 55*time.Second {
			return errRefused
		}
		return nil
	})
	a.wantLog(t, "200ms ready=true dead=false ", "40.2s ready=false dead=false ReadinessFailed", "1m10.2s ready=true dead=false ")
	if r, _ := a.pulse.report(); r.Message != "" {
		t.Errorf("a ready container has the message %q", r.Message)
	}
}

func TestOneBadAnswerIsNoNews(t *testing.T) {
	a := ask(api.Probe{Name: api.ProbeReadiness, Failures: 3})
	n := 0
	a.until(t, 5*time.Minute, func(string, time.Duration) error {
		if n++; n%3 == 0 {
			return errRefused
		}
		return nil
	})
	a.wantLog(t, "100ms ready=true dead=false ")
}

// A container has failures × period to start, however often it is asked meanwhile.
func TestStartupTakesItsTime(t *testing.T) {
	never := ask(api.Probe{Name: api.ProbeStartup, Failures: 3}, api.Probe{Name: api.ProbeLiveness})
	never.until(t, 10*time.Minute, func(probe string, _ time.Duration) error {
		if probe != api.ProbeStartup {
			t.Errorf("%s is asked before the startup probe passed", probe)
		}
		return errRefused
	})
	if len(never.log) != 1 || never.now.Sub(never.start) < 30*time.Second || never.now.Sub(never.start) > 45*time.Second {
		t.Errorf("reported %q", never.log)
	}
	slow := ask(api.Probe{Name: api.ProbeStartup, Failures: 3}, api.Probe{Name: api.ProbeReadiness}, api.Probe{Name: api.ProbeLiveness})
	slow.until(t, time.Minute, from(25*time.Second))
	slow.wantLog(t, "32.7s ready=true dead=false ")
}

func TestLivenessFails(t *testing.T) {
	a := ask(api.Probe{Name: api.ProbeLiveness, Failures: 3}, api.Probe{Name: api.ProbeReadiness})
	a.until(t, 10*time.Minute, func(probe string, at time.Duration) error {
		if probe == api.ProbeLiveness && at > time.Minute {
			return errRefused
		}
		return nil
	})
	a.wantLog(t, "100ms ready=true dead=false ", "1m20.1s ready=false dead=true LivenessFailed")
	r, _ := a.pulse.report()
	if want := "the liveness probe of container app (GET :8080/liveness) fails: answered 503 Service Unavailable"; r.Message != want {
		t.Errorf("message %q, want %q", r.Message, want)
	}
	if _, _, more := a.pulse.Next(); more {
		t.Error("a dead container is asked again")
	}
}
