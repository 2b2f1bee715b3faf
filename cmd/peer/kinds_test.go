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
