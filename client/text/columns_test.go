package text

import (
	"strings"
	"testing"

	apiv1 "starling.dev/starling/api/v1"
)

// Lists of kinds that are made of others, or stand for them, show what people look for.
func TestColumnsOfKinds(t *testing.T) {
	shop := func(kind string) *apiv1.Key { return &apiv1.Key{Kind: kind, Namespace: "default", Name: "shop"} }
	for _, c := range []struct {
		o    *apiv1.Object
		want []string
	}{
		{&apiv1.Object{Key: shop("PinnedDeployment"), Status: map[string]string{"status.ready": "2", "status.replicas": "3", "status.next": "1"}},
			[]string{"READY   REPLICAS   NEXT", "2       3          1"}},
		{&apiv1.Object{Key: shop("Service"), Status: map[string]string{"status.address": `"fd00::1"`, "status.external": `["192.0.2.1","2001:db8::1"]`}},
			[]string{"ADDRESS", "EXTERNAL", "fd00::1   192.0.2.1,2001:db8::1"}},
		{&apiv1.Object{Key: shop("Service")}, []string{"-         -"}},
		{&apiv1.Object{Key: shop("Site"), Fields: map[string]string{"spec.hosts": `["a.example","b.example"]`}}, []string{"HOSTS", "a.example,b.example"}},
	} {
		got := style().Objects([]*apiv1.Object{c.o}, false)
		for _, w := range c.want {
			if !strings.Contains(got, w) {
				t.Errorf("the list lacks %q:\n%s", w, got)
			}
		}
	}
}

// A status for programs holds objects in the form that `get` writes.
func TestStatusForPrograms(t *testing.T) {
	st := &apiv1.StatusResponse{
		View:      &apiv1.View{Machine: "m1"},
		LastLines: []string{"hello"},
		Objects: []*apiv1.ObjectState{{
			Goal: "ready",
			Object: &apiv1.Object{
				Key: podKey("web"), Rev: "3", Verdict: "converged",
				Fields: map[string]string{"spec.stop.grace": `"5s"`, "spec.containers.app.args": `["--listen","x"]`},
				Status: map[string]string{"status.machine": `"m1"`},
			},
			Steps: []*apiv1.StepStatus{step("ready", nil, 0, 0, 0)},
		}},
	}
	got, err := MessageJSON(st)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "status-json", got)
	if yaml, err := MessageYAML(st); err != nil || !strings.Contains(yaml, "grace: 5s") {
		t.Errorf("as YAML: %v\n%s", err, yaml)
	}
	if st.GetObjects()[0].GetObject() == nil || st.GetObjects()[0].GetObject().GetKey() == nil {
		t.Error("writing it took something from the answer")
	}
}

// A line that is too long for the terminal is cut in an overview, and in a file it is whole.
func TestOverviewFitsTheTerminal(t *testing.T) {
	list := []*apiv1.ObjectState{{
		Object: &apiv1.Object{Key: podKey("wide"), Verdict: "blocked", Phase: "schedule blocked"},
		Steps:  []*apiv1.StepStatus{{Step: "schedule", State: "blocked", SinceMs: now.UnixMilli(), Message: strings.Repeat("m1 memory; ", 20)}},
	}}
	narrow := style()
	narrow.Width = 80
	for line := range strings.Lines(narrow.Overview(list)) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if !strings.Contains(narrow.Overview(list), "…\n") || strings.Contains(style().Overview(list), "…") {
		t.Errorf("what is cut is not marked, or a file is cut:\n%s%s", narrow.Overview(list), style().Overview(list))
	}
}
