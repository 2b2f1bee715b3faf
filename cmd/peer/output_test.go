package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
)

// What programs read is whole, one value, with the exit code that people get.
func TestAnswersForPrograms(t *testing.T) {
	var got *apiv1.ApplyRequest
	f := taker(&got)
	f.plan = func(*apiv1.ApplyRequest) (*apiv1.PlanResponse, error) {
		return &apiv1.PlanResponse{Objects: []*apiv1.ObjectPlan{{Key: web(), Result: "changed"}}}, nil
	}
	f.doctor = func() (*apiv1.DoctorResponse, error) {
		return &apiv1.DoctorResponse{Findings: []*apiv1.Finding{{What: "firewall"}}}, nil
	}
	f.events = func(_ *apiv1.EventsRequest, s *connect.ServerStream[apiv1.Event]) error {
		return errors.Join(s.Send(&apiv1.Event{Key: web(), Step: "image"}), s.Send(&apiv1.Event{Key: web(), Step: "network"}))
	}
	file := write(t, "web.yaml", webYAML)
	for line, want := range map[string]struct {
		code  int
		lines []string // what stands in the values, one for each
	}{
		"apply -o json -f " + file: {exitOK, []string{`"5f0c9a3be1d2"`}},
		"plan -o json -f " + file:  {exitDifference, []string{`"changed"`}},
		"doctor -o json":           {exitError, []string{`"firewall"`}},
		"events -o json":           {exitOK, []string{`"image"`, `"network"`}},
	} {
		o := f.run(t, strings.Fields(line)...)
		if o.code != want.code || o.errs != "" {
			t.Errorf("%s: %+v, want code %d and no message", line, o, want.code)
		}
		read := json.NewDecoder(strings.NewReader(o.out))
		for _, part := range want.lines {
			var value json.RawMessage
			if err := read.Decode(&value); err != nil || !strings.Contains(string(value), part) {
				t.Errorf("%s: %v: %s lacks %s", line, err, value, part)
			}
		}
		if read.More() {
			t.Errorf("%s: there is more: %s", line, o.out)
		}
	}
	got = nil
	f.run(t, "apply", "-o", "frob", "-f", file).wantErr(t, exitError, `-o "frob": there are only json and yaml`)
	if got != nil {
		t.Error("apply with a wrong -o changed something")
	}
	f.run(t, "machine", "ls", "-o", "name").wantErr(t, exitError, `-o "name": there are only wide, json and yaml`)
	f.run(t, "events", "-o", "yaml").wantErr(t, exitError, `-o "yaml": there is only json`)
}

// A command that can't be started ends as it would in a shell.
func TestExecOfNoCommand(t *testing.T) {
	for said, code := range map[string]int{
		`exec: "ls": executable file not found in $PATH`:                   exitNoCommand,
		`exec: "/x": stat /x: no such file or directory`:                   exitNoCommand,
		`exec /etc/passwd: permission denied`:                              exitNotRunnable,
		`the machine is silent, and nobody knows whether that will change`: exitError,
	} {
		f := &fake{exec: func(s *connect.BidiStream[apiv1.ExecInput, apiv1.ExecOutput]) error {
			return refusal(connect.CodeInvalidArgument, api.Errorf(api.Invalid, "run ls in container app: %s", said))
		}}
		f.run(t, "exec", "web", "--", "ls").wantErr(t, code, said)
	}
}
