package lifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"starling.dev/starling/api"
)

// tell lets one thing happen.
func (s *story) tell(t *testing.T, d *datadriven.TestData) {
	w := s.w
	word := func(i int) string {
		if i >= len(d.CmdArgs) {
			d.Fatalf(t, "%s: an argument is missing", d.Cmd)
		}
		return d.CmdArgs[i].Key
	}
	switch d.Cmd {
	case "edit":
		w.edit(fieldsOf(d))
	case "goal":
		w.goal = word(0)
	case "delete":
		w.goal = Deleted
	case "place":
		w.place = word(0)
	case "executor":
		w.lead = word(0)
	case "fail":
		w.fails[word(0)] = failureOf(t, d)
	case "fail-undo":
		w.undoFail[word(0)] = failureOf(t, d)
	case "mend":
		delete(w.fails, word(0))
		delete(w.undoFail, word(0))
	case "slow":
		w.slow[word(0)] = true
	case "finish":
		w.finishAll(word(0))
	case "disagree":
		w.disagree[word(0)] = true
	case "agree":
		delete(w.disagree, word(0))
	case "skip":
		w.skip[word(0)] = true
	case "exit":
		w.exit(word(0), strings.Join(strings.Fields(d.Input), " "))
	case "wake":
		w.wakeAll()
	case "pass":
		p, err := time.ParseDuration(word(0))
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		w.now = w.now.Add(p)
	case "down", "lost", "up", "restart", "remove":
		w.machineEvent(d.Cmd, w.machine(word(0)))
	default:
		d.Fatalf(t, "there is no command %q", d.Cmd)
	}
}

func fieldsOf(d *datadriven.TestData) api.Fields {
	f := api.Fields{}
	for _, a := range d.CmdArgs {
		if strings.Contains(a.Key, ".") {
			f[a.Key] = api.Str(strings.Join(a.Vals, ","))
		}
	}
	return f
}

func failureOf(t *testing.T, d *datadriven.TestData) *failure {
	f := &failure{code: "Broken", message: "it is broken", times: -1, wait: d.HasArg("wait")}
	d.MaybeScanArgs(t, "times", &f.times)
	return f
}

func (w *world) finishAll(step string) {
	delete(w.slow, step)
	for _, m := range w.machines {
		if m.running[step] != nil && m.up {
			w.finish(m, step)
		}
	}
}

// exit is how a step that was done fails by itself: its process ended, say.
func (w *world) exit(step, message string) {
	r := w.o.Results[step]
	s, _ := w.g.Step(step)
	r.Phase, r.Code, r.Message, r.Failures = PhaseFailed, "ContainerExited", message, r.Failures+1
	r.RetryAt = w.now.Add(s.Retry.Delay(r.Failures))
	r.Attempt++
	next := *w.o
	next.Results = map[string]Result{}
	for name, old := range w.o.Results {
		next.Results[name] = old
	}
	next.Results[step] = r
	w.o = &next
}

func (w *world) wakeAll() {
	for _, m := range w.machines {
		for step := range m.tried {
			m.woken[step] = true
		}
	}
}

func (w *world) machineEvent(what string, m *machine) {
	switch what {
	case "down":
		m.up, m.running = false, map[string]*act{}
	case "lost":
		m.lost = true
	case "up":
		m.boot()
	case "restart":
		m.boot()
	case "remove":
		m.removed, m.up = true, false
	}
}

// ask answers a question and changes nothing.
func (s *story) ask(t *testing.T, d *datadriven.TestData) string {
	w := s.w
	as := w.executor()
	d.MaybeScanArgs(t, "as", &as)
	e := w.evaluate(w.machine(as))
	switch d.Cmd {
	case "show":
		return w.show(&e, as)
	case "why":
		return w.why(&e)
	case "plan":
		return w.plan(t, d)
	case "describe":
		return w.g.Describe().String()
	case "longest":
		return strings.Join(w.g.Describe().Longest, " -> ")
	case "dot":
		return w.g.Dot()
	}
	return strings.Join(names(w.g), ", ")
}

func (w *world) show(e *Evaluation, as string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, as %s sees it", e.Verdict, as)
	if e.Gone {
		b.WriteString(": gone")
	}
	if !e.Wake.IsZero() {
		fmt.Fprintf(&b, "; looks again in %s", e.Wake.Sub(w.now))
	}
	for _, s := range e.Steps {
		fmt.Fprintf(&b, "\n  %-10s %s", s.Step, w.describe(s))
	}
	return b.String()
}

func (w *world) describe(s StepState) string {
	words := []string{string(s.State)}
	if s.Machine != "" && !s.Target {
		words = append(words, "on", s.Machine)
	}
	if s.For != "" {
		words = append(words, "for", s.For)
	}
	if s.Dirty {
		words = append(words, "(dirty)")
	}
	if s.State == StateRetrying {
		words = append(words, "in", s.Until.Sub(w.now).String())
	}
	if s.Code != "" {
		words = append(words, s.Code)
	}
	text := strings.Join(words, " ")
	if s.Message != "" {
		text += ": " + s.Message
	}
	return text
}

func (w *world) why(e *Evaluation) string {
	var lines []string
	for i, l := range w.g.Explain(e) {
		relation := ""
		if l.Why != "" {
			relation = l.Why + " "
		}
		lines = append(lines, strings.Repeat("  ", i)+relation+l.Step+": "+w.describe(l.StepState))
	}
	if lines == nil {
		return "it is " + string(e.Verdict)
	}
	return strings.Join(lines, "\n")
}

func (w *world) plan(t *testing.T, d *datadriven.TestData) string {
	goal := w.goal
	d.MaybeScanArgs(t, "goal", &goal)
	place := w.place
	d.MaybeScanArgs(t, "place", &w.place)
	defer func() { w.place = place }()
	after := *w.o
	after.Fields = w.o.Fields.Clone()
	for path, v := range fieldsOf(d) {
		after.Fields[path] = v
	}
	var lines []string
	for _, p := range w.g.Plan(nil, w.o, &after, goal, w.env(w.machine(w.executor())), nil, same) {
		line := fmt.Sprintf("%-5s %-9s on %s", p.Action, p.Step, p.Machine)
		if len(p.Because) > 0 {
			line += " because of " + strings.Join(p.Because, ", ")
		}
		if p.Blocked != "" {
			line += ": " + p.Blocked
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func same(o *Object) *Object { return o }
