package lifecycle

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"starling.dev/starling/api"
)

// TestTranscripts plays the stories in testdata. A graph is written one step a line:
//
//	target NAME [requires=A,B] [after=A]
//	step NAME [decides|acts] [on=executor] [requires=A] [wants=A] [after=A] [before=A]
//	          [requiredby=A] [wantedby=A] [reads=PATH] [feedback=PATH] [writes=PATH]
//	          [undo] [constant] [loop=NAME] [claims=R] [timeout=D] [budget=N]
//
// Machines act until nothing is left to do; what they did is what a command prints.
// Rewrite the files with: go test ./lifecycle -run TestTranscripts -rewrite
func TestTranscripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			s := &story{names: []string{"a", "b", "c"}}
			datadriven.RunTest(t, path, s.play)
		})
	}
}

// story is one transcript in progress.
type story struct {
	w     *world
	names []string
}

func (s *story) play(t *testing.T, d *datadriven.TestData) string {
	if s.w != nil {
		s.w.t = t
	}
	switch d.Cmd {
	case "graph":
		return s.graph(t, d)
	case "show", "why", "plan", "order", "describe", "longest", "dot":
		return s.ask(t, d)
	}
	s.tell(t, d)
	s.w.settle()
	if log := s.w.takeLog(); log != "" {
		return log
	}
	return "nothing"
}

func (s *story) graph(t *testing.T, d *datadriven.TestData) string {
	constant := map[string]bool{}
	var w *world
	g, err := parseGraph(d.Input, constant, func(step Step, in Inputs) Outputs { return w.outputs(step, in) })
	if err != nil {
		return "refused: " + err.Error()
	}
	w = newWorld(t, g, s.names...)
	w.constant = constant
	s.w = w
	return "order: " + strings.Join(names(g), ", ")
}

func names(g *Graph) []string {
	var list []string
	for _, s := range g.Describe().Nodes {
		list = append(list, s.Name)
	}
	return list
}

// parseGraph reads the language of the transcripts.
func parseGraph(text string, constant map[string]bool, outputs func(Step, Inputs) Outputs) (*Graph, error) {
	var targets []Target
	var loops []Loop
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		args := arguments(words[2:])
		if words[0] == "target" {
			targets = append(targets, Target{Name: words[1], Goal: true, Requires: args["requires"], After: args["after"]})
			continue
		}
		step := parseStep(words[1], args)
		constant[step.Name] = args["constant"] != nil
		behave(&step, args, outputs)
		loops = addStep(loops, step, args)
	}
	return NewGraph("Thing", targets, loops)
}

func arguments(words []string) map[string][]string {
	args := map[string][]string{}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		args[key] = append(args[key], strings.Split(value, ",")...)
	}
	return args
}

func parseStep(name string, args map[string][]string) Step {
	s := Step{
		Name: name, Where: OnMachine, Timeout: time.Minute, Goal: true,
		Requires: args["requires"], Wants: args["wants"], After: args["after"], Before: args["before"],
		RequiredBy: args["requiredby"], WantedBy: args["wantedby"],
		Reads: append(args["reads"], args["feedback"]...), Feedback: args["feedback"], Outputs: args["writes"],
	}
	if args["on"] != nil {
		s.Where = OnExecutor
	}
	if v := args["by"]; v != nil {
		s.Authors = api.Authors{By: []string{"user:" + v[0]}}
	}
	if v := args["timeout"]; v != nil {
		s.Timeout, _ = time.ParseDuration(v[0])
	}
	if v := args["budget"]; v != nil {
		fmt.Sscan(v[0], &s.Budget)
	}
	return s
}

// behave gives a step what it does.
func behave(s *Step, args map[string][]string, outputs func(Step, Inputs) Outputs) {
	step := *s
	if args["decides"] != nil {
		s.Decide = func(_ View, in Inputs) (Outputs, error) { return outputs(step, in), nil }
	}
	if args["acts"] != nil || args["decides"] == nil {
		s.Do = func(_ context.Context, _ Host, in Inputs) (Outputs, error) { return outputs(step, in), nil }
		s.Expect = func(in Inputs) Outputs { return outputs(step, in) }
	}
	if args["undo"] != nil {
		s.Undo = func(context.Context, Host, Inputs) error { return nil }
	}
}

// addStep puts a step into its loop, which has its name unless told otherwise.
func addStep(loops []Loop, s Step, args map[string][]string) []Loop {
	name := s.Name
	if v := args["loop"]; v != nil {
		name = v[0]
	}
	for i := range loops {
		if loops[i].Name == name && args["again"] == nil {
			loops[i].Steps = append(loops[i].Steps, s)
			loops[i].Claims = append(loops[i].Claims, args["claims"]...)
			return loops
		}
	}
	kind := "Thing"
	if v := args["kind"]; v != nil {
		kind = v[0]
	}
	return append(loops, Loop{Name: name, Kind: kind, Claims: args["claims"], Steps: []Step{s}})
}
