package main

import (
	"testing"

	"google.golang.org/protobuf/proto"

	apiv1 "starling.dev/starling/api/v1"
)

func TestRollIsOneWrite(t *testing.T) {
	deployment := &apiv1.Key{Kind: "PinnedDeployment", Namespace: "default", Name: "web"}
	previous := map[string]string{"spec.previous.containers.app.image": `"localhost/hello:1"`}
	for how, want := range map[string]*apiv1.Edit{
		"10%":   {Fields: map[string]string{"spec.percentNext": "10"}, Unset: []string{"spec.paused"}},
		"100":   {Fields: map[string]string{"spec.percentNext": "100"}, Unset: []string{"spec.paused"}},
		"pause": {Fields: map[string]string{"spec.paused": "true"}},
		"abort": {Fields: map[string]string{"spec.percentNext": "0"}, Unset: []string{"spec.paused"}},
	} {
		var got *apiv1.ApplyRequest
		f := taker(&got)
		f.get = func(*apiv1.GetRequest) (*apiv1.GetResponse, error) {
			return &apiv1.GetResponse{Objects: []*apiv1.Object{{Key: deployment, Fields: previous}}}, nil
		}
		f.run(t, "roll", "web", how).wantOut(t, "pinneddeployment/web changed")
		want.Kind, want.Key, want.MustExist = apiv1.EditKind_EDIT_KIND_PATCH, deployment, true
		if len(got.GetEdits()) != 1 || !proto.Equal(got.GetEdits()[0], want) {
			t.Errorf("roll %s: %v, want %v", how, got.GetEdits(), want)
		}
	}
}

func TestRollRefuses(t *testing.T) {
	f := &fake{get: func(*apiv1.GetRequest) (*apiv1.GetResponse, error) {
		return &apiv1.GetResponse{Objects: []*apiv1.Object{{}}}, nil
	}}
	f.run(t, "roll", "web", "101%").wantErr(t, exitError, "write 0% to 100%, pause or abort")
	f.run(t, "roll", "web", "half").wantErr(t, exitError, `"half" is not how far to roll`)
	f.run(t, "roll", "pod/web", "10%").wantErr(t, exitError, "pod/web is no deployment")
	f.run(t, "roll", "web", "abort").wantErr(t, exitError, "has no previous template to return to", "peer rollback pinneddeployment/web")
	f.run(t, "roll", "web").wantErr(t, exitError, "how far it is to roll")
}
