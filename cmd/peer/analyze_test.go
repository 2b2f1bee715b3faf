package main

import (
	"strings"
	"testing"

	apiv1 "starling.dev/starling/api/v1"
)

// The exit code of several objects is that of the worst.
func TestExitCodesTellVerdicts(t *testing.T) {
	for want, verdicts := range map[int][]string{
		exitOK: {"converged", "converged"}, exitProgressing: {"converged", "progressing"},
		exitFailed: {"progressing", "failed"}, exitBlocked: {"failed", "blocked", "progressing"},
	} {
		f := &fake{status: func(*apiv1.StatusRequest) (*apiv1.StatusResponse, error) {
			out := &apiv1.StatusResponse{}
			for _, v := range verdicts {
				out.Objects = append(out.Objects, &apiv1.ObjectState{Object: &apiv1.Object{Key: web(), Verdict: v}})
			}
			return out, nil
		}}
		for _, args := range [][]string{{"status"}, {"status", "-o", "json"}} {
			if o := f.run(t, args...); o.code != want || o.out == "" || o.errs != "" {
				t.Errorf("%v of %v: %+v, want code %d", args, verdicts, o, want)
			}
		}
		f.why = func(*apiv1.WhyRequest) (*apiv1.WhyResponse, error) {
			return &apiv1.WhyResponse{Verdict: verdicts[len(verdicts)-1]}, nil
		}
		if o := f.run(t, "why", "web"); want != exitBlocked && o.code != want {
			t.Errorf("why of %s: %+v, want code %d", verdicts, o, want)
		}
	}
}

func TestAnalyzeOfTheCluster(t *testing.T) {
	var got *apiv1.AnalyzeRequest
	f := &fake{analyze: func(r *apiv1.AnalyzeRequest) (*apiv1.AnalyzeResponse, error) {
		got = r
		return &apiv1.AnalyzeResponse{Loops: []*apiv1.LoopChurn{{Loop: "image", Entries: 7, Worst: web(), WorstEntries: 5}}}, nil
	}}
	f.run(t, "analyze").wantOut(t, "no step has finished lately")
	f.run(t, "analyze", "--churn", "--since", "10m").wantOut(t, "loop image wrote most, 5 of them about pod/web")
	if want := at.UnixMilli() - 600_000; got.GetSinceMs() != want {
		t.Errorf("since %d, want %d", got.GetSinceMs(), want)
	}
	f.run(t, "analyze", "web", "--churn").wantErr(t, exitError, "leave the object out")
	f.run(t, "analyze", "--plot").wantOut(t, "<svg ")
	f.run(t, "analyze", "--dot").wantOut(t, "digraph steps")
	f.run(t, "analyze", "--dot", "--plot").wantErr(t, exitError, "none of the others can be")
}

// An earlier run is named behind the object: a rev, or a time.
func TestAnalyzeOfARun(t *testing.T) {
	var got *apiv1.StatusRequest
	f := &fake{status: func(r *apiv1.StatusRequest) (*apiv1.StatusResponse, error) {
		got = r
		return &apiv1.StatusResponse{FromMs: map[string]int64{"3": 2000}[r.GetAt()], Objects: []*apiv1.ObjectState{{Object: &apiv1.Object{Key: web(), Rev: "3"}, Steps: []*apiv1.StepStatus{
			{Step: "image", StartedMs: 1000, FinishedMs: 1500},
		}}}}, nil
	}}
	f.run(t, "analyze", "web@3").wantOut(t, "no step of pod/web ran for rev 3")
	if got.GetAt() != "3" || got.GetKey().GetName() != "web" {
		t.Errorf("asked for %v", got)
	}
	f.run(t, "analyze", "web@2026-03-14T15:00:00Z", "--plot").wantOut(t, "pod/web took 500ms")
	if got.GetAt() != "2026-03-14T15:00:00Z" {
		t.Errorf("asked for %v", got)
	}
}

// wantStanding takes the exit code off a command that ends as the object stands: blocked.
func wantStanding(t *testing.T, line string, o outcome) outcome {
	t.Helper()
	switch strings.Fields(line)[0] {
	case "status", "describe", "why":
		if o.code != exitBlocked {
			t.Errorf("%s ends with %d, want %d", line, o.code, exitBlocked)
		}
		o.code = exitOK
	}
	return o
}
