package oci

import (
	"reflect"
	"testing"
)

// FuzzParseRef: an image reference as a person writes it. What was completed once stays
// as it is.
func FuzzParseRef(f *testing.F) {
	for _, s := range []string{"hello", "localhost/hello:1", "localhost:5000/a/b@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "A/b:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, given string) {
		ref, err := parseRef(given)
		if err != nil {
			return
		}
		if again, err := parseRef(ref.name); err != nil || again.name != ref.name || again.digest != ref.digest {
			t.Fatalf("%q is %+v, and that is %+v (%v)", given, ref, again, err)
		}
	})
}

// FuzzParseRecord: labels that anybody may have put on a container.
func FuzzParseRecord(f *testing.F) {
	f.Add("pod", "app", "3", "1", `{"signal":"TERM","grace":"1s"}`, `{"cpu":5}`, "2026-01-02T03:04:05.6Z", `{"code":137}`)
	f.Fuzz(func(t *testing.T, pod, container, generation, restarts, stop, given, started, exit string) {
		rec, ok := parseRecord("id", map[string]string{
			labelPod: pod, labelContainer: container, labelGeneration: generation, labelRestarts: restarts, labelStop: stop,
			labelGiven: given, labelStarted: started, labelExit: exit,
		})
		if !ok {
			return
		}
		want := record{ID: rec.ID, PodID: rec.PodID, Container: rec.Container, Generation: rec.Generation, Restarts: rec.Restarts, Stop: rec.Stop, Given: rec.Given}
		if again, ok := parseRecord("id", want.labels()); !ok || !reflect.DeepEqual(again, want) {
			t.Fatalf("read as %+v, and from its own labels as %+v", want, again)
		}
	})
}
