package loop

import (
	"maps"
	"testing"

	"google.golang.org/protobuf/proto"

	apiv1 "starling.dev/starling/api/v1"
)

// FuzzCall: a call as a peer sends it becomes a Call that a program can ask for anything.
func FuzzCall(f *testing.F) {
	for _, fields := range []Fields{
		{"spec.size": "7", "children.app.3.name": `"x"`, "children.app.3.state": `"ready"`}, {"children.": "1", "children.a.-1.name": "{"}, {"": "", ".": "."},
	} {
		raw, err := proto.Marshal(&apiv1.StepCall{Id: 1, Step: "build", Key: &apiv1.Key{Kind: "Thing", Name: "a"}, Fields: fields, DeadlineMs: 5})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var c apiv1.StepCall
		if proto.Unmarshal(raw, &c) != nil {
			return
		}
		call := callOf(&c)
		if !maps.Equal(call.Fields, c.GetFields()) {
			t.Fatalf("the fields are %v, and were %v", call.Fields, c.GetFields())
		}
		for path := range call.Fields {
			call.Fields.String(path)
			call.Fields.Int(path)
			call.Fields.Bool(path)
			call.Fields.Strings(path)
			call.Fields.Duration(path)
			call.Fields.Keys(path)
		}
	})
}
