package server

import (
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
)

func TestAnswersAreOfOneVersion(t *testing.T) {
	a := &answers{}
	web, db := api.Key{Kind: "Pod", Name: "web"}, api.Key{Kind: "Pod", Name: "db"}
	old := &apiv1.GetResponse{
		Objects: []*apiv1.Object{{Id: "1"}},
		View:    &apiv1.View{Machine: "m1", TimeMs: 1, Unreachable: []string{"m2"}, SilentSinceMs: map[string]int64{"m2": 5}},
	}
	a.keep(7, web, old)
	got, ok := a.of(7, web)
	if !ok || time.Since(time.UnixMilli(got.GetView().GetTimeMs())) > time.Minute {
		t.Fatalf("got %v, %v", got, ok)
	}
	got.View.TimeMs = 1
	if !proto.Equal(got, old) {
		t.Errorf("%v is answered as %v", old, got)
	}
	for _, v := range []uint64{6, 8} {
		if _, ok := a.of(v, web); ok {
			t.Errorf("an answer of version 7 is given at version %d", v)
		}
	}
	a.keep(8, db, old)
	a.keep(7, web, old) // whoever asked before is late
	if _, ok := a.of(8, web); ok {
		t.Error("an answer of version 7 is given at version 8")
	}
	if _, ok := a.of(8, db); !ok {
		t.Error("an answer is forgotten")
	}
	for i := range 2 * maxAnswers {
		a.keep(8, api.Key{Kind: "Pod", Name: strconv.Itoa(i)}, old)
	}
	if n := len(a.byKey); n > maxAnswers {
		t.Errorf("%d answers are kept, at most %d may be", n, maxAnswers)
	}
}
