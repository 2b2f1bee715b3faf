package main

import (
	"testing"

	apiv1 "starling.dev/starling/api/v1"
)

func TestVerifyPrintsTheProof(t *testing.T) {
	var asked *apiv1.VerifyRequest
	f := &fake{verify: func(r *apiv1.VerifyRequest) (*apiv1.VerifyResponse, error) {
		asked = r
		if r.GetDrawing() != "" {
			return &apiv1.VerifyResponse{Drawing: "digraph {}"}, nil
		}
		return &apiv1.VerifyResponse{Proof: "Pod: no cycle.\n", View: &apiv1.View{Machine: "m1"}}, nil
	}}
	f.run(t, "verify").wantOut(t, "Pod: no cycle.")
	f.run(t, "verify", "pods", "--dot").wantOut(t, "digraph {}")
	if asked.GetKind() != "Pod" || asked.GetDrawing() != "dot" {
		t.Errorf("asked for %v", asked)
	}
}

func TestVerifyNamesMisfits(t *testing.T) {
	f := &fake{verify: func(*apiv1.VerifyRequest) (*apiv1.VerifyResponse, error) {
		return &apiv1.VerifyResponse{Proof: "Pod: no cycle.\n", Misfits: []string{"step/b: both write status.loops.audit"}}, nil
	}}
	o := f.run(t, "verify")
	o.wantErr(t, exitError, "1 foreign steps don't fit")
}
