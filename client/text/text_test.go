package text

import (
	"encoding/json"
	"encoding/xml"
	"slices"
	"strings"
	"testing"
	"time"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
)

func TestPrinters(t *testing.T) {
	s := style()
	objects := []*apiv1.Object{readyMachine().Object, stuckPod().Object, readyPod().Object}
	for name, got := range map[string]string{
		"objects":         s.Objects(objects, false),
		"objects-wide":    s.Objects(objects, true),
		"object-yaml":     ObjectYAML(readyPod().Object),
		"overview":        s.Overview([]*apiv1.ObjectState{readyMachine(), stuckPod(), readyPod()}),
		"overview-empty":  s.Overview(nil),
		"status-ready":    s.Status(readyPod()),
		"status-stuck":    s.Status(stuckPod()),
		"why":             s.Why(stuckWhy()),
		"why-ready":       s.Why(&apiv1.WhyResponse{Verdict: "converged", Sentence: "pod/web is ready on m1", View: &apiv1.View{Machine: "m2"}}),
		"analyze":         s.Analyze(readyPod(), 0),
		"analyze-nothing": s.Analyze(&apiv1.ObjectState{Object: &apiv1.Object{Key: podKey("new")}}, 0),
		"analyze-no-run":  s.Analyze(readyPod(), msAgo(time.Minute)),
		"dot":             Dot(readyPod(), 0),
		"plot":            Plot(readyPod(), 0),
		"plot-nothing":    Plot(&apiv1.ObjectState{Object: &apiv1.Object{Key: podKey("new")}}, 0),
		"plan":            s.Plan(somePlan()),
		"applied":         s.Applied(someChange()) + s.Safety(someChange()),
		"applied-alone":   s.Safety(&apiv1.ApplyResponse{ChangeSet: "5f0c9a3be1d2", Alone: true}) + s.Safety(&apiv1.ApplyResponse{ChangeSet: "5f0c9a3be1d2"}),
		"history":         s.History(someHistory(), false),
		"history-diff":    s.History(someHistory(), true),
		"events":          someEvents(s),
		"machines":        s.Machines(someMachines(), false),
		"machines-wide":   s.Machines(someMachines(), true),
		"images":          s.Images([]*apiv1.Image{{Name: "localhost/hello:1", Digest: "sha256:0123456789abcdef0123456789abcdef", Size: 2_345_678, Machine: "m1"}}),
		"top":             s.Top(someUsage(), false),
		"top-memory":      s.Top(someUsage(), true),
		"doctor":          s.Findings(someFindings()),
		"doctor-well":     s.Findings(&apiv1.DoctorResponse{View: &apiv1.View{Machine: "m1"}}),
		"view":            s.View(partView()),
	} {
		t.Run(name, func(t *testing.T) { golden(t, name, got) })
	}
}

func someUsage() []*apiv1.ContainerUsage {
	return []*apiv1.ContainerUsage{
		{Key: podKey("idle"), Container: "app", Machine: "m1", CpuMilli: 3, Memory: 900 << 20},
		{Key: podKey("busy"), Container: "app", Machine: "m2", CpuMilli: 480, CpuLimitMilli: 500, Memory: 12 << 20, MemoryLimit: 64 << 20},
	}
}

func stuckWhy() *apiv1.WhyResponse {
	steps := stuckPod().Steps
	find := func(name string) *apiv1.StepStatus {
		return steps[slices.IndexFunc(steps, func(s *apiv1.StepStatus) bool { return s.Step == name })]
	}
	return &apiv1.WhyResponse{
		Verdict: "failed", View: partView(),
		Sentence: "pod/trade/shop: image on m1: localhost/hello:9 is not on m1; it is tried again in 3.2s (failure 3 in a row)",
		Fix:      "Check the reference, or load the image with `peer image load`.",
		Chain: []*apiv1.WhyLink{
			{Step: find("ready")}, {Step: find("running"), Relation: "requires"},
			{Step: find("container"), Relation: "requires"}, {Step: find("image"), Relation: "after"},
		},
	}
}

func somePlan() *apiv1.PlanResponse {
	stays := func(names ...string) (steps []*apiv1.PlanStep) {
		for _, n := range names {
			steps = append(steps, &apiv1.PlanStep{Step: n, Action: "stay", Machine: "m1"})
		}
		return steps
	}
	return &apiv1.PlanResponse{Objects: []*apiv1.ObjectPlan{
		{
			Key: podKey("web"), Result: "changed", FromMachine: "m1", ToMachine: "m1", Address: "fd5a:1::7",
			Diff: []*apiv1.FieldDiff{
				{Path: "spec.containers.app.args", Old: `["--listen","[::]:8080"]`, New: `["--listen","[::]:9090"]`},
				{Path: "spec.containers.app.env.GREETING", New: `"salut"`},
				{Path: "spec.require.disk", Old: `"ssd"`},
			},
			Steps: append(stays("admit", "image", "network"),
				&apiv1.PlanStep{Step: "container", Action: "rerun", Machine: "m1", Because: []string{"spec.containers.app.args", "spec.containers.app.env.GREETING"}}),
			Gap: "the containers that changed restart in place; the successor is created before the old one stops",
		},
		{
			Key: podKey("big"), Result: "created",
			Steps: []*apiv1.PlanStep{{Step: "schedule", Action: "run", Machine: "m2", Blocked: "no machine has 64Gi of memory left"}, {Step: "container", Action: "run"}},
			Gap:   "it would wait: no machine has 64Gi of memory left",
		},
		{Key: podKey("same"), Result: "unchanged"},
	}}
}

func someChange() *apiv1.ApplyResponse {
	return &apiv1.ApplyResponse{ChangeSet: "5f0c9a3be1d2", HeldBy: "m2", Outcomes: []*apiv1.Outcome{
		{Key: podKey("web"), Rev: "4", Result: "changed"}, {Key: podKey("old"), Rev: "9", Result: "deleted"}, {Key: podKey("same"), Rev: "1", Result: "unchanged"},
	}}
}

func someHistory() []*apiv1.HistoryEntry {
	return []*apiv1.HistoryEntry{
		{Key: podKey("web"), Rev: "1", ChangeSet: "000000000001", Author: "user:alice", TimeMs: msAgo(50 * time.Hour), Message: "first\nmore"},
		{
			Key: podKey("web"), Rev: "2", ChangeSet: "000000000002", Author: "user:bob", TimeMs: msAgo(3 * time.Hour), Current: true,
			Diff: []*apiv1.FieldDiff{{Path: "spec.restart", New: `"never"`}, {Path: "spec.grace", Old: `"30s"`}},
		},
		{Key: podKey("old"), Author: "user:eve", TimeMs: msAgo(90 * time.Second), Message: "clean up", Deletes: true, Refused: "user:eve may not delete pods"},
	}
}

func someEvents(s Style) string {
	return s.Event(&apiv1.Event{Key: podKey("web"), TimeMs: msAgo(1500 * time.Millisecond), Step: "container", Phase: "done", Machine: "m1", TookMs: 245, Attempt: 1}) +
		s.Event(&apiv1.Event{Key: podKey("web"), TimeMs: msAgo(49 * time.Hour), Step: "image", Phase: "failed", Machine: "m1", Attempt: 3, Message: "not found"}) +
		s.Event(&apiv1.Event{Key: podKey("web"), TimeMs: msAgo(time.Minute), Step: "network", Phase: "undone"})
}

func someMachines() *apiv1.MachinesResponse {
	return &apiv1.MachinesResponse{Machines: []*apiv1.MachineInfo{
		{
			Name: "m1", Id: "ab12", Address: "192.168.1.4", Alive: true, Voter: true, Self: true, Connected: true, SinceMs: msAgo(3 * time.Hour), Phase: "ready",
			CpuMilli: 4000, UsedCpuMilli: 1500, Memory: 16 << 30, UsedMemory: 96 << 20, Pods: 2, Version: "0.1", Prefix: "fd5a:1:0:1::/96",
			Labels: map[string]string{"rack": "a", "disk": "ssd"},
		},
		{Name: "m3", Id: "cd34", SinceMs: msAgo(4 * time.Minute), Phase: "silent"},
	}}
}

func someFindings() *apiv1.DoctorResponse {
	return &apiv1.DoctorResponse{View: &apiv1.View{Machine: "m1"}, Findings: []*apiv1.Finding{
		{What: "the host's firewall drops what it forwards", Rule: "table ip6 filter, chain FORWARD: policy drop", Remedy: "ip6tables -I FORWARD -i 'st+' -j ACCEPT"},
		{What: "the clock is off"},
	}}
}

func TestObjectJSONIsNestedAndWhole(t *testing.T) {
	text, err := ObjectJSON(stuckPod().Object)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "object-json", text)
	if !json.Valid([]byte(text)) {
		t.Errorf("not JSON: %s", text)
	}
}

// What is printed as YAML can be applied again, and then changes nothing.
func TestYAMLCanBeApplied(t *testing.T) {
	objects := []*apiv1.Object{readyPod().Object, stuckPod().Object}
	specs, err := api.ParseYAML("printed", []byte(ObjectsYAML(objects)))
	if err != nil {
		t.Fatal(err)
	}
	for i, spec := range specs {
		if d := api.Diff(objects[i].Fields, spec.Fields); len(d) > 0 {
			t.Errorf("%s: printing and parsing changed %v", spec.Key, d)
		}
	}
	if len(specs) != len(objects) {
		t.Errorf("%d documents were parsed, want %d", len(specs), len(objects))
	}
}

func TestMessagesForPrograms(t *testing.T) {
	asJSON, err := MessageJSON(someMachines())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "machines-json", asJSON)
	asYAML, err := MessageYAML(someMachines())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "machines-yaml", asYAML)
}

// A view is told only where something was out of its reach.
func TestViewIsSilentWhenWhole(t *testing.T) {
	if got := style().View(&apiv1.View{Machine: "m1"}); got != "" {
		t.Errorf("a whole view prints %q", got)
	}
}

func TestColorOnlyWhereAllowed(t *testing.T) {
	plain, colored := style(), Style{Now: now, Color: true}
	if strings.Contains(plain.Status(stuckPod()), "\x1b") {
		t.Error("plain text has escape sequences")
	}
	if got := colored.Status(stuckPod()); !strings.Contains(got, "\x1b[31mfailed\x1b[0m") {
		t.Errorf("a failed object is not red:\n%s", got)
	}
}

func TestUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", 119 * time.Second: "119s", 2 * time.Minute: "2m", 119 * time.Minute: "119m",
		47 * time.Hour: "47h", 48 * time.Hour: "2d", 1000 * time.Hour: "41d",
	} {
		if got := Age(d); got != want {
			t.Errorf("Age(%s) = %s, want %s", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0ms", 45 * time.Millisecond: "45ms", 1250 * time.Millisecond: "1.25s", 123 * time.Second: "2m3s", -1: "0ms",
	} {
		if got := Took(d); got != want {
			t.Errorf("Took(%s) = %s, want %s", d, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 1023: "1023", 1024: "1.0Ki", 64 << 20: "64Mi", 1000 << 20: "1.0Gi", 16 << 30: "16Gi", 1<<63 - 1: "8.0Ei"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %s, want %s", n, got, want)
		}
	}
}

// An answer of a broken peer must not hang or crash a command.
func TestTreeOfNonsense(t *testing.T) {
	steps := []*apiv1.StepStatus{
		{Step: "a", Target: true, Requires: []string{"b", "missing"}}, {Step: "b", Target: true, Requires: []string{"a", "b"}},
		{Step: "c", StartedMs: 1, FinishedMs: 1, Requires: []string{"a", "c"}},
	}
	style().Analyze(&apiv1.ObjectState{Steps: []*apiv1.StepStatus{{Step: "x", QueuedMs: 900, StartedMs: 500, FinishedMs: 600}}}, 0)
	tree, others := treeOf("a", steps)
	if len(tree) == 0 || len(others) != 1 {
		t.Errorf("the tree has %d branches, and %d steps are beside it; want some and 1", len(tree), len(others))
	}
	if got := newRun(steps, 0); got.pole().GetStep() != "c" {
		t.Errorf("the long pole is %q, want c", got.pole().GetStep())
	}
}

// A step that was wanted long before what it requires had finished did not hold anything
// up.
func TestThePoleIsWhatHeldUpTheRest(t *testing.T) {
	o := readyPod()
	ready := o.Steps[len(o.Steps)-1]
	ready.QueuedMs = o.Steps[0].QueuedMs
	if got := newRun(o.Steps, 0).pole().GetStep(); got != "image" {
		t.Errorf("the long pole is %q, want image", got)
	}
}

// A restart in place is a run of its own: what was done an hour ago is no part of it.
func TestAnalyzeLooksAtTheLastRun(t *testing.T) {
	o := readyPod()
	for _, s := range o.Steps {
		if s.Step == "container" || s.Step == "ready" {
			s.QueuedMs, s.StartedMs, s.FinishedMs = s.QueuedMs+200_000, s.StartedMs+200_000, s.FinishedMs+200_000
		}
	}
	var names []string
	for _, s := range newRun(o.Steps, 0).steps {
		names = append(names, s.GetStep())
	}
	if want := []string{"container", "ready"}; !slices.Equal(names, want) {
		t.Errorf("the run has the steps %v, want %v", names, want)
	}
}

// What was done before a rev was written is no part of its run, though it ended a moment
// before.
func TestAnalyzeARevsRun(t *testing.T) {
	o := readyPod()
	from := o.Steps[0].GetQueuedMs() + 2000
	r := newRun(o.Steps, from)
	for _, s := range r.steps {
		if s.GetFinishedMs() < from {
			t.Errorf("%s is part of the run", s.GetStep())
		}
	}
	if len(r.steps) != 2 || r.pole().GetStep() != "container" {
		t.Errorf("the run has %d steps, the longest is %s; want container and ready", len(r.steps), r.pole().GetStep())
	}
}

func TestRetryNote(t *testing.T) {
	s := Style{Now: now}
	step := &apiv1.StepStatus{Step: "pods", State: "retrying", WaitsFor: "pod/web-0", UntilMs: now.Add(3 * time.Second).UnixMilli()}
	if got, want := s.stepNote(step), "for pod/web-0, until "+s.clock(step.UntilMs); got != want {
		t.Errorf("of a step whose child fails: %q, want %q", got, want)
	}
	step.Failures = 2
	if got := s.stepNote(step); got != "again in 3s, failed 2 times in a row" {
		t.Errorf("of a step that failed: %q", got)
	}
}

func TestAnalyzeTheCluster(t *testing.T) {
	a := &apiv1.AnalyzeResponse{
		FromMs: msAgo(90 * time.Minute),
		Steps: []*apiv1.StepTiming{
			{Kind: "Pod", Step: "image", Runs: 12, Failures: 2, WaitedP50Ms: 1, WaitedP99Ms: 30, WorkedP50Ms: 1900, WorkedP99Ms: 8000, SlowestMs: 8000, SlowestMachine: "m3"},
			{Kind: "Pod", Step: "schedule", Runs: 1200, SlowestMachine: "m1"},
		},
		Loops: []*apiv1.LoopChurn{
			{Loop: "readiness", Entries: 900, Objects: 2, Worst: podKey("web"), WorstEntries: 890, Held: 1, Budget: 60},
			{Loop: "image", Entries: 12, Objects: 12, Worst: podKey("db"), WorstEntries: 1, Budget: 120},
		},
	}
	golden(t, "analyze-cluster", style().Steps(a))
	golden(t, "analyze-churn", style().Churn(a))
	a.Steps[0].Requires = []string{"schedule", "gone"}
	golden(t, "plot-cluster", style().PlotSteps(a))
	golden(t, "dot-cluster", DotSteps(a))
	for _, plot := range []string{style().PlotSteps(a), style().PlotSteps(&apiv1.AnalyzeResponse{}), Plot(readyPod(), 0)} {
		if err := xml.Unmarshal([]byte(plot), new(struct{ XMLName xml.Name })); err != nil {
			t.Errorf("no XML: %v\n%s", err, plot)
		}
	}
}
