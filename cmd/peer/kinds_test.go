package main

import (
	"strings"
	"testing"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
)

// knowsWebsites is a peer with a kind of people's own and one object of it.
func knowsWebsites() *fake {
	return &fake{get: func(r *apiv1.GetRequest) (*apiv1.GetResponse, error) {
		out := &apiv1.GetResponse{}
		switch r.GetKind() {
		case "Kind":
			out.Objects = []*apiv1.Object{{Key: &apiv1.Key{Kind: "Kind", Name: "website"}, Fields: api.Fields{
				"spec.doc": `"A website."`, "spec.columns": `["spec.pods","status.loops.website.ready"]`,
				`spec.fields."spec.pods".type`: `"integer"`, `spec.fields."spec.pods".default`: "1", `spec.fields."spec.pods".doc`: `"How many pods serve it."`,
				`spec.fields."status.loops.website.ready".type`: `"integer"`, `spec.fields."status.loops.website.ready".doc`: `"How many serve."`,
			}}}
		case "Website":
			out.Objects = []*apiv1.Object{{
				Key: &apiv1.Key{Kind: "Website", Namespace: "default", Name: "front"}, Rev: "1", Phase: "ready", Verdict: "converged",
				Status: api.Fields{"status.loops.website.ready": "1"},
			}}
		}
		return out, nil
	}}
}

// Commands know kinds that people defined, by the peer's word: names and plurals, fields
// with their places, columns, and what a word may have meant.
func TestOwnKinds(t *testing.T) {
	knowsWebsites().run(t, "get", "websites").wantOut(t, "OBJECT", "PODS", "READY", "website/front", "ready", "1", "1")
	knowsWebsites().run(t, "get", "WEBSITE/front", "-o", "name").wantOut(t, "website/front")
	knowsWebsites().run(t, "get", "websits", "front").wantErr(t, exitError, `there is no kind "websits"`, "did you mean Website?")
	knowsWebsites().run(t, "explain", "website.spec.pods").wantOut(t, "How many pods serve it.", "default:", "1", "owner:", "people")
	f := knowsWebsites()
	var got []*apiv1.Edit
	f.apply = func(r *apiv1.ApplyRequest) (*apiv1.ApplyResponse, error) {
		got = r.GetEdits()
		return &apiv1.ApplyResponse{}, nil
	}
	site := "kind: website\nname: front\nspec: {pods: 3}\n"
	apply := func(text string) outcome {
		return execute(t, f.serve(t), typed{args: []string{"apply", "-f", "-"}, in: strings.NewReader(text)})
	}
	apply(site).wantOut(t)
	if len(got) != 1 || got[0].GetKey().GetKind() != "Website" || got[0].GetFields()["spec.pods"] != "3" {
		t.Errorf("applied %v", got)
	}
	apply(strings.Replace(site, "pods:", "pod:", 1)).wantErr(t, exitError, "spec.pod: there is no such field; did you mean pods?", "^")
}

// What a field means is known without a peer; which steps read and write it, a peer knows,
// of fields in no table too.
func TestExplainTellsWhoUsesAField(t *testing.T) {
	f := &fake{explain: func(r *apiv1.ExplainRequest) (*apiv1.ExplainResponse, error) {
		if r.GetKind() != "Pod" {
			return nil, unknown()
		}
		return &apiv1.ExplainResponse{Readers: []string{"admit", "audit:check"}, Loop: "scheduler", Step: "schedule", Entries: 60}, nil
	}}
	o := f.run(t, "explain", "pod.status.machine")
	o.wantOut(t, "The machine that the pod is placed on.")
	o.wantOut(t, "written by step schedule of loop scheduler, within 60 entries about one object at once\nread by admit, audit:check\n")
	f.run(t, "explain", "pod.status.loops.audit").wantOut(t, "pod.status.loops.audit\n\nwritten by step schedule")
	(&fake{}).run(t, "explain", "pod.status.machine").wantOut(t, "owner:  loop scheduler")
	(&fake{}).run(t, "explain", "pod.status.nothing").wantErr(t, exitError, "there is no such field")
}
