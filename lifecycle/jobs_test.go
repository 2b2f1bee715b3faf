package lifecycle

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"starling.dev/starling/api"
)

func TestSwitch(t *testing.T) {
	tests := []struct {
		name    string
		now     Job
		reached bool
		goal    string
		mode    Mode
		want    Outcome
		job     Job
	}{
		{"at rest", Job{Goal: "ready", From: "ready"}, true, "stopped", ModeFail, OutcomeStarted, Job{"stopped", "ready", ModeFail}},
		{"at rest there", Job{Goal: "ready"}, true, "ready", ModeReplace, OutcomeNothing, Job{Goal: "ready"}},
		{"at rest after an irreversible switch", Job{"stopped", "ready", ModeIrreversible}, true, "ready", ModeReplace, OutcomeStarted, Job{"ready", "stopped", ModeReplace}},
		{"under way to the same", Job{"stopped", "ready", ModeReplace}, false, "stopped", ModeFail, OutcomeJoined, Job{"stopped", "ready", ModeReplace}},
		{"under way to the same, now for good", Job{"stopped", "ready", ModeReplace}, false, "stopped", ModeIrreversible, OutcomeJoined, Job{"stopped", "ready", ModeIrreversible}},
		{"under way for good to the same", Job{"stopped", "ready", ModeIrreversible}, false, "stopped", ModeReplace, OutcomeJoined, Job{"stopped", "ready", ModeIrreversible}},
		{"under way elsewhere, fail", Job{"stopped", "ready", ModeReplace}, false, "running", ModeFail, OutcomeRefused, Job{"stopped", "ready", ModeReplace}},
		{"under way elsewhere, replace", Job{"stopped", "ready", ModeReplace}, false, "running", ModeReplace, OutcomeReplaced, Job{"running", "ready", ModeReplace}},
		{"under way elsewhere, for good", Job{"stopped", "ready", ModeFail}, false, "running", ModeIrreversible, OutcomeReplaced, Job{"running", "ready", ModeIrreversible}},
		{"under way for good", Job{"stopped", "ready", ModeIrreversible}, false, "running", ModeIrreversible, OutcomeRefused, Job{"stopped", "ready", ModeIrreversible}},
		{"a deletion passes all", Job{"stopped", "ready", ModeIrreversible}, false, Deleted, ModeFail, OutcomeReplaced, Job{Deleted, "ready", ModeIrreversible}},
		{"nothing passes a deletion", Job{Deleted, "ready", ModeIrreversible}, false, "ready", ModeReplace, OutcomeRefused, Job{Deleted, "ready", ModeIrreversible}},
	}
	for _, tt := range tests {
		job, got := Switch(tt.now, tt.reached, tt.goal, tt.mode)
		if got != tt.want || job != tt.job {
			t.Errorf("%s: %s, %+v; want %s, %+v", tt.name, got, job, tt.want, tt.job)
		}
	}
}

func TestCancel(t *testing.T) {
	for _, tt := range []struct {
		now     Job
		reached bool
		goal    string
		want    Outcome
	}{
		{Job{"stopped", "ready", ModeReplace}, false, "ready", OutcomeReplaced},
		{Job{"stopped", "ready", ModeIrreversible}, false, "ready", OutcomeReplaced},
		{Job{"stopped", "ready", ModeReplace}, true, "stopped", OutcomeNothing},
		{Job{"ready", "", ModeReplace}, false, "ready", OutcomeNothing},
		{Job{Deleted, "ready", ModeIrreversible}, false, Deleted, OutcomeRefused},
	} {
		if job, got := Cancel(tt.now, tt.reached); got != tt.want || job.Goal != tt.goal {
			t.Errorf("%+v: %s, %+v; want %s, %s", tt.now, got, job, tt.want, tt.goal)
		}
	}
}

// The laws of the table, over every job and every request.
func TestSwitchLaws(t *testing.T) {
	goals := []string{"ready", "running", "stopped", Deleted}
	modes := []Mode{ModeFail, ModeReplace, ModeIrreversible}
	rapid.Check(t, func(t *rapid.T) {
		now := Job{rapid.SampledFrom(goals).Draw(t, "under way"), rapid.SampledFrom(goals[:3]).Draw(t, "from"), rapid.SampledFrom(modes).Draw(t, "its mode")}
		reached := rapid.Bool().Draw(t, "reached")
		goal, mode := rapid.SampledFrom(goals).Draw(t, "goal"), rapid.SampledFrom(modes).Draw(t, "mode")
		job, outcome := Switch(now, reached, goal, mode)
		again, second := Switch(job, reached && outcome == OutcomeNothing, goal, mode)
		switch {
		case outcome == OutcomeRefused && (job != now || second != OutcomeRefused):
			t.Fatalf("a refusal changed %+v to %+v", now, job)
		case outcome != OutcomeRefused && job.Goal != goal:
			t.Fatalf("%s, and the goal is %s in place of %s", outcome, job.Goal, goal)
		case outcome != OutcomeRefused && (again != job || second == OutcomeRefused):
			t.Fatalf("asking twice is not asking once: %+v, then %s %+v", job, second, again)
		case goal == Deleted && outcome == OutcomeRefused:
			t.Fatalf("a deletion was refused: %+v", now)
		case now.Goal == Deleted && job.Goal != Deleted:
			t.Fatalf("a deletion was given up for %+v", job)
		case !reached && now.Mode == ModeIrreversible && goal != now.Goal && goal != Deleted && outcome != OutcomeRefused:
			t.Fatalf("an irreversible switch was given up for %+v", job)
		}
	})
}

func TestParseMode(t *testing.T) {
	if m, err := ParseMode(""); m != ModeReplace || err != nil {
		t.Errorf("no word gives %q, %v", m, err)
	}
	if _, err := ParseMode("force"); err == nil || !strings.Contains(err.Error(), "fail, replace and irreversible") {
		t.Errorf("force: %v", err)
	}
}

func TestRefusalSaysWhatToDo(t *testing.T) {
	key := api.Key{Kind: "Pod", Namespace: "default", Name: "web"}
	for goal, want := range map[Job]string{
		{Goal: Deleted}: "create it anew",
		{Goal: "stopped", Mode: ModeIrreversible}: "--cancel",
		{Goal: "stopped", Mode: ModeReplace}:      "--mode replace",
	} {
		if got := Refusal(key, goal, "ready"); !strings.Contains(got, want) || !strings.Contains(got, fmt.Sprint(key)) {
			t.Errorf("%+v: %q does not say %q", goal, got, want)
		}
	}
}
