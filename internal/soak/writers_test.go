package soak

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"testing"
	"time"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/lab"
)

// labels is how many labels of its object a writer writes in turn, each with the number of
// the write: a write that is lost shows as a label that is too old.
const labels = 40

// writer is a person who writes to one object at one machine, one write after the other.
type writer struct {
	f       *field
	machine int
	key     *apiv1.Key

	mu sync.Mutex // guards what follows
	// acked holds the last number that was acknowledged, by label, and tried the last one
	// that was asked for.
	acked, tried map[int]int
	next, held   int // the number of the next write; writes that another machine held too
}

func newWriter(t *testing.T, f *field, machine, i int) *writer {
	t.Helper()
	w := &writer{
		f: f, machine: machine, acked: map[int]int{}, tried: map[int]int{},
		key: &apiv1.Key{Kind: "Pod", Namespace: "default", Name: fmt.Sprintf("%s-%d-%d", name(t), machine, i)},
	}
	// It is never to run: only the log is of interest.
	edit := &apiv1.Edit{Kind: apiv1.EditKind_EDIT_KIND_APPLY, Key: w.key, Fields: map[string]string{
		"spec.containers.app.image": api.Str("localhost/none:1"), "lifecycle.target": api.Str(api.TargetStopped),
	}}
	if _, err := f.apply(t.Context(), machine, edit); err != nil {
		t.Fatal(err)
	}
	return w
}

func name(t *testing.T) string {
	t.Helper()
	return map[bool]string{true: "killed", false: "cut"}[t.Name() == "TestKilledWriters"]
}

func (f *field) apply(ctx context.Context, machine int, edit *apiv1.Edit) (*apiv1.ApplyResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return f.lab.Client(machine).Apply(ctx, &apiv1.ApplyRequest{Author: "soak", Edits: []*apiv1.Edit{edit}})
}

// write writes until the context ends or the machine no longer answers.
func (w *writer) write(ctx context.Context) {
	client := w.f.lab.Client(w.machine)
	for ctx.Err() == nil {
		w.mu.Lock()
		n := w.next
		w.next++
		w.tried[n%labels] = n
		w.mu.Unlock()
		edit := &apiv1.Edit{Kind: apiv1.EditKind_EDIT_KIND_PATCH, Key: w.key, Fields: map[string]string{
			fmt.Sprintf("spec.labels.w%d", n%labels): api.Str(strconv.Itoa(n)),
		}}
		a, err := client.Apply(ctx, &apiv1.ApplyRequest{Author: "soak", Edits: []*apiv1.Edit{edit}})
		if err != nil {
			return
		}
		w.mu.Lock()
		w.acked[n%labels] = n
		if a.GetHeldBy() != "" {
			w.held++
		}
		w.mu.Unlock()
	}
}

// check compares what a machine has of the object with what was acknowledged.
func (w *writer) check(t *testing.T, machine int) {
	t.Helper()
	got, err := w.f.lab.Client(machine).Get(t.Context(), &apiv1.GetRequest{Kind: "Pod", Namespace: "default", Name: w.key.GetName()})
	if err != nil || len(got.GetObjects()) != 1 {
		t.Fatalf("read %s at %s: %v, %d objects", w.key.GetName(), lab.Name(machine), err, len(got.GetObjects()))
	}
	fields := api.Fields(got.GetObjects()[0].GetFields())
	w.mu.Lock()
	defer w.mu.Unlock()
	for label, n := range maps.Clone(w.acked) {
		have, _ := strconv.Atoi(fields.String(fmt.Sprintf("spec.labels.w%d", label)))
		if have < n || have > w.tried[label] {
			t.Errorf("%s at %s: label w%d is %d; %d was acknowledged, %d asked for", w.key.GetName(), lab.Name(machine), label, have, n, w.tried[label])
		}
	}
}

func (w *writer) writes() (acked, held int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next, w.held
}

func (f *field) hash(t *testing.T, n int) (string, error) {
	t.Helper()
	got, err := f.lab.Client(n).Debug(t.Context(), &apiv1.DebugRequest{})
	if err != nil {
		return "", err
	}
	return got.GetStateHash(), nil
}
