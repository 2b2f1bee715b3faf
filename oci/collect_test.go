package oci

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// needs answers what a machine needs.
func needs(refs map[string][]string, digests ...string) Need {
	return func(context.Context) (Needed, error) { return Needed{Refs: refs, Digests: digests}, nil }
}

// names lists every name that is held, the pinned ones included.
func (f *fixture) names() (names []string) {
	f.t.Helper()
	held, err := f.client.ImageService().List(f.in(f.ctx))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, image := range held {
		names = append(names, image.Name)
	}
	slices.Sort(names)
	return names
}

func TestCollectTakesOnlyWhatNothingNeeds(t *testing.T) {
	f := newLoadedFixture(t)
	loaded := f.names()
	host := startRegistry(t, open)
	old := probeImage(t, "")
	pushImage(t, host+"/web:1", old)
	next, err := mutate.CreatedAt(old, v1.Time{Time: time.Unix(1, 0)})
	if err != nil {
		t.Fatal(err)
	}
	pushImage(t, host+"/web:2", next)
	for _, tag := range []string{":1", ":2"} {
		if _, err := f.Images().Ensure(f.ctx, host+"/web"+tag); err != nil {
			t.Fatal(err)
		}
	}
	pins := map[string]string{":1": "@" + digestOf(t, old), ":2": "@" + digestOf(t, next)}
	web := func(tags ...string) (names []string) {
		for _, tag := range tags {
			names = append(names, host+"/web"+tag, host+"/web"+pins[tag])
		}
		return names
	}
	collect := func(need Need, after time.Duration, want ...string) {
		t.Helper()
		if _, err := f.Images().Collect(f.ctx, need, after); err != nil {
			t.Fatal(err)
		}
		want = slices.Concat(loaded, want)
		slices.Sort(want)
		if got := f.names(); !slices.Equal(got, want) {
			t.Fatalf("left are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	both := needs(map[string][]string{host + "/web:1": {"pod/a"}, host + "/web:2": {"pod/a"}})
	second := needs(map[string][]string{host + "/web:2": {"pod/a"}})

	collect(both, 0, web(":1", ":2")...)
	collect(second, time.Hour, web(":1", ":2")...) // unneeded from now on
	collect(both, 0, web(":1", ":2")...)           // and needed again
	collect(second, time.Nanosecond, web(":1", ":2")...)
	collect(second, time.Nanosecond, web(":2")...)
	// A container's image stays under its digest when the tag is nobody's any more.
	collect(needs(nil, digestOf(t, next)), 0, host+"/web@"+digestOf(t, next))
	// What is gone can come back.
	if got, err := f.Images().Ensure(f.ctx, host+"/web:1"); err != nil || got != digestOf(t, old) {
		t.Fatalf("Ensure returned %q, %v", got, err)
	}
	collect(needs(nil), 0)

	want := errors.New("no answer")
	_, err = f.Images().Collect(f.ctx, func(context.Context) (Needed, error) { return Needed{}, want }, 0)
	if !errors.Is(err, want) || !slices.Equal(f.names(), loaded) {
		t.Errorf("without an answer Collect returned %v and left %v", err, f.names())
	}
}

func TestDiscardRefusesWhatIsNeeded(t *testing.T) {
	f := newLoadedFixture(t)
	_, err := f.Images().Discard(f.ctx, "localhost/hello:1", needs(map[string][]string{"localhost/hello:1": {"pod/b", "pod/a", "pod/b"}}))
	var known *lifecycle.Error
	if !errors.As(err, &known) || known.Code != api.Conflict || !strings.Contains(err.Error(), "needed by pod/a, pod/b") {
		t.Errorf("Discard returned %v", err)
	}
	gone, err := f.Images().Discard(f.ctx, "localhost/hello:1", needs(nil))
	if err != nil || gone.Ref != "localhost/hello:1" || gone.Size == 0 {
		t.Errorf("Discard returned %+v, %v", gone, err)
	}
	if _, err = f.Images().Discard(f.ctx, "localhost/hello:1", needs(nil)); !errors.As(err, &known) || known.Code != api.NotFound {
		t.Errorf("Discard, again, returned %v", err)
	}
}

func TestRoom(t *testing.T) {
	f := newBareFixture(t)
	free, size, err := f.Images().Room(f.ctx)
	if err != nil || free == 0 || free >= size {
		t.Errorf("Room returned %d of %d, %v", free, size, err)
	}
}
