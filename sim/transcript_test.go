package sim

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"starling.dev/starling/api"
	"starling.dev/starling/peer"
)

// TestTranscripts plays the stories in testdata, in calm weather: nothing goes wrong but
// what the story does.
//
//	cluster N                found a cluster of N machines and start them
//	join                     one machine more
//	apply POD at=M args=A    a person at a machine states a pod
//	cut M,M                  cut machines off from the others
//	heal                     end all cuts
//	wait D                   let time pass
//	see M                    the pods, as a machine sees them
//
// What a command prints is what happened meanwhile, with the virtual time in seconds.
// Rewrite the files with: go test ./sim -run TestTranscripts -rewrite
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &transcript{}
		datadriven.RunTest(t, path, s.play)
		if s.w != nil && s.w.violation != nil {
			t.Error(s.w.violation)
		}
	})
}

// transcript is one story in progress.
type transcript struct {
	w   *World
	log bytes.Buffer
}

func (s *transcript) play(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	s.log.Reset()
	args := map[string]string{}
	var first string
	for i, a := range d.CmdArgs {
		if len(a.Vals) == 0 && i == 0 {
			first = a.Key
		} else if len(a.Vals) > 0 {
			args[a.Key] = a.Vals[0]
		}
	}
	switch d.Cmd {
	case "cluster":
		s.found(t, first)
	case "join":
		s.w.join()
		s.w.runFor(5 * time.Second)
	case "apply":
		s.apply(t, first, args)
	case "cut":
		side := map[int]bool{}
		for _, name := range strings.Split(first, "+") {
			side[s.machine(t, name).index] = true
		}
		s.w.net.block(side, false)
		s.w.runFor(time.Second)
	case "heal":
		s.w.net.heal()
		s.w.runFor(5 * time.Second)
	case "wait":
		length, err := time.ParseDuration(first)
		if err != nil {
			t.Fatal(err)
		}
		s.w.runFor(length)
	case "see":
		return s.see(s.machine(t, first))
	default:
		t.Fatalf("there is no command %q", d.Cmd)
	}
	return s.told()
}

func (s *transcript) found(t *testing.T, n string) {
	t.Helper()
	var peers int
	fmt.Sscan(n, &peers)
	var err error
	if s.w, err = newWorld(Config{Seed: 1, Peers: peers, Duration: time.Hour, Calm: true, Trace: &s.log}, hooks{}); err != nil {
		t.Fatal(err)
	}
	for _, m := range s.w.machines {
		m.start()
	}
	s.w.runFor(warmUp)
}

func (s *transcript) apply(t *testing.T, name string, args map[string]string) {
	t.Helper()
	key := api.Key{Kind: "Pod", Namespace: "default", Name: name}
	s.w.people.write(s.machine(t, args["at"]), "apply "+name, peer.Edit{Kind: peer.EditApply, Key: key, Fields: api.Fields{
		"spec.containers.app.image": api.Str(imageGood), "spec.containers.app.args": api.List(args["args"]), "spec.grace": api.Duration(5 * time.Second),
	}})
	s.w.runFor(4 * time.Second)
}

func (s *transcript) machine(t *testing.T, name string) *machine {
	t.Helper()
	for _, m := range s.w.machines {
		if m.name == name {
			return m
		}
	}
	t.Fatalf("there is no machine %q", name)
	return nil
}

// told is what was said, without the details that only a trace gives.
func (s *transcript) told() string {
	var b strings.Builder
	for line := range strings.Lines(s.log.String()) {
		if at, rest, _ := strings.Cut(strings.TrimSpace(line), " "); !strings.HasPrefix(rest, " ") {
			fmt.Fprintf(&b, "%s %s\n", at, rest)
		}
	}
	if b.Len() == 0 {
		return "nothing"
	}
	return b.String()
}

func (s *transcript) see(m *machine) string {
	var b strings.Builder
	for _, o := range m.core.List("Pod") {
		f := o.Object.Status()
		fmt.Fprintf(&b, "%s rev %d: %s on %s, args %v", o.Object.Key.Name, o.Object.Rev, o.Eval.Verdict, f.String("status.machine"), o.Object.Fields.Strings("spec.containers.app.args"))
		if o.Eval.Silent != "" {
			fmt.Fprintf(&b, "; %s is silent", o.Eval.Silent)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%d entries, state %s\n", m.core.Figures()["entries"], m.core.StateHash())
	return b.String()
}
