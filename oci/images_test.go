package oci

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/oci/testimage"
)

func TestPullsFromARegistryAndRuns(t *testing.T) {
	f := newBareFixture(t)
	ref := startRegistry(t, open) + "/shop/probe:2"
	want := digestOf(t, push(t, ref, ""))
	got, err := f.Images().Ensure(f.ctx, ref)
	if err != nil || got != want {
		t.Fatalf("Ensure returned %q, %v; want %q", got, err, want)
	}
	spec := app()
	spec.Image, spec.Digest = ref, got
	if s := f.ensure(spec)[0]; s.Digest != want || !alive(s.PID) {
		t.Errorf("the container is %+v", s)
	}
}

func TestPullsThisMachinesPartOfAnIndex(t *testing.T) {
	f := newBareFixture(t)
	ref := startRegistry(t, open) + "/probe:all"
	foreign, own := probeImage(t, "s390x"), probeImage(t, "")
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: foreign, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}}},
		mutate.IndexAddendum{Add: own, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: thisArchitecture}}})
	pushIndex(t, ref, index, foreign, own)
	got, err := f.Images().Ensure(f.ctx, ref)
	if want := digestOf(t, index); err != nil || got != want {
		t.Fatalf("Ensure returned %q, %v; want the index's %q", got, err, want)
	}
	again, err := f.Images().Ensure(f.ctx, ref)
	if err != nil || again != got {
		t.Errorf("Ensure, again, returned %q, %v", again, err)
	}
	// What is handed to another machine keeps its digest.
	other := newBareFixture(t, func(c *Config) { c.Namespace += "-other"; c.Fetcher = exporter{f.Images()} })
	fetched, err := other.Images().Ensure(other.ctx, ref)
	if err != nil || fetched != got {
		t.Errorf("the other machine got %q, %v; want %q", fetched, err, got)
	}
}

// A pod runs the image that was resolved for it, even after its tag has moved.
func TestATagThatMovedDoesNotTakeTheOldImageAway(t *testing.T) {
	f := newLoadedFixture(t)
	digest, err := f.Images().Ensure(f.ctx, "localhost/probe:1")
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	moved := testimage.Options{Ref: "localhost/probe:1", Binary: shared.binary, Env: []string{"FROM=a later image"}}
	if err := testimage.Build(f.ctx, &archive, moved); err != nil {
		t.Fatal(err)
	}
	loaded, err := f.Images().Import(f.ctx, &archive)
	if err != nil || len(loaded) != 1 || loaded[0].Digest == digest {
		t.Fatalf("Import returned %+v, %v", loaded, err)
	}
	spec := app("wait")
	spec.Digest = digest
	f.ensure(spec)
	if env, _ := f.output("app", "/bin/probe", "env"); !strings.Contains(env, "FROM=image") {
		t.Errorf("the container runs another image: %q", env)
	}
}

func TestWhyAnImageIsNotToBeHad(t *testing.T) {
	f := newBareFixture(t)
	running := startRegistry(t, open)
	push(t, running+"/foreign:1", "s390x")
	refusing := startRegistry(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("WWW-Authenticate", `Basic realm="private"`)
			w.WriteHeader(http.StatusUnauthorized)
		})
	})
	failing := startRegistry(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	})
	down := httptest.NewServer(nil)
	gone := strings.TrimPrefix(down.URL, "http://")
	down.Close()
	for _, c := range []struct{ ref, code, sentence string }{
		{"localhost/x:1", api.ImageNotFound, "image localhost/x:1 is not on this machine; load it with peer image load -f FILE"},
		{running + "/missing:1", api.ImageNotFound, "registry " + running + " has no image " + running + "/missing:1"},
		{running + "/foreign:1", api.ImagePlatform, "image " + running + "/foreign:1 is for linux/s390x, and this machine is linux/" + thisArchitecture},
		{refusing + "/private:1", api.Unauthorized, "registry " + refusing + " refuses image"},
		{failing + "/any:1", api.RegistryUnreachable, "registry " + failing + " is not to be reached"},
		{gone + "/any:1", api.RegistryUnreachable, "registry " + gone + " is not to be reached"},
		{"No Image", api.Invalid, `"No Image" is no image reference`},
	} {
		for range 2 { // what a first attempt leaves must not change the answer
			_, err := f.Images().Ensure(f.ctx, c.ref)
			var step *lifecycle.Error
			if !errors.As(err, &step) || step.Code != c.code || !strings.HasPrefix(step.Message, c.sentence) {
				t.Errorf("%s: %v (code %q)\nwant %s: %s", c.ref, err, stepCode(err), c.code, c.sentence)
			}
		}
	}
}

func TestCredentialsAreUsed(t *testing.T) {
	guarded := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			user, secret, _ := r.BasicAuth()
			reading := r.Method == http.MethodGet || r.Method == http.MethodHead
			if reading && (user != "alice" || secret != "open sesame") {
				w.Header().Set("WWW-Authenticate", `Basic realm="private"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	host := startRegistry(t, guarded)
	f := newBareFixture(t, func(c *Config) {
		c.AuthFile = filepath.Join(t.TempDir(), "auth.json")
		content := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, host, base64.StdEncoding.EncodeToString([]byte("alice:open sesame")))
		if err := os.WriteFile(c.AuthFile, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	push(t, host+"/private:1", "")
	if _, err := f.Images().Ensure(f.ctx, host+"/private:1"); err != nil {
		t.Errorf("Ensure: %v", err)
	}
}

// exporter is a Fetcher that takes from another machine's images.
type exporter struct{ from *Images }

func (e exporter) Fetch(ctx context.Context, ref string, w io.Writer) error {
	return e.from.Export(ctx, ref, w)
}

func TestFetchesFromAnotherMachine(t *testing.T) {
	holder := newFixture(t)
	want, err := holder.Images().Ensure(holder.ctx, "localhost/probe:1")
	if err != nil {
		t.Fatal(err)
	}
	f := newBareFixture(t, func(c *Config) { c.Namespace += "-second"; c.Fetcher = exporter{holder.Images()} })
	got, err := f.Images().Ensure(f.ctx, "localhost/probe:1")
	if err != nil || got != want {
		t.Fatalf("Ensure returned %q, %v; want %q", got, err, want)
	}
	if s := f.ensure(app())[0]; !alive(s.PID) {
		t.Error("the fetched image does not run")
	}
	_, err = f.Images().Ensure(f.ctx, "localhost/nobody:1")
	if stepCode(err) != api.ImageNotFound {
		t.Errorf("an image that nobody has: %v", err)
	}
}

func TestImportRefusesWhatIsNoImage(t *testing.T) {
	f := newBareFixture(t)
	_, err := f.Images().Import(f.ctx, strings.NewReader(strings.Repeat("no archive ", 200)))
	if stepCode(err) != api.Invalid {
		t.Errorf("Import of text returned %v", err)
	}
	broken := errors.New("the disk is gone")
	_, err = f.Images().Import(f.ctx, io.MultiReader(bytes.NewReader(shared.probe[:1024]), failingReader{broken}))
	if !errors.Is(err, broken) {
		t.Errorf("Import from a reader that fails returned %v", err)
	}
	var archive bytes.Buffer
	if err := testimage.Build(f.ctx, &archive, testimage.Options{Ref: "localhost/foreign:1", Binary: shared.binary, Architecture: "s390x"}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Images().Import(f.ctx, &archive); stepCode(err) != api.ImagePlatform {
		t.Errorf("Import of another architecture's image returned %v", err)
	}
	if list, err := f.Images().List(f.ctx); err != nil || len(list) > 0 {
		t.Errorf("refused images are listed: %+v, %v", list, err)
	}
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

func TestListAndRemoveImages(t *testing.T) {
	f := newLoadedFixture(t)
	list, err := f.Images().List(f.ctx)
	if err != nil || len(list) != 2 || list[0].Ref != "localhost/hello:1" || list[1].Ref != "localhost/probe:1" {
		t.Fatalf("List returned %+v, %v", list, err)
	}
	for _, image := range list {
		if image.Size < 100_000 || !strings.HasPrefix(image.Digest, "sha256:") {
			t.Errorf("List returned %+v", image)
		}
	}
	if err := f.Images().Remove(f.ctx, func(i Image) bool { return i.Digest == list[1].Digest }); err != nil {
		t.Fatalf("Remove: %v", err)
	}
	if list, err = f.Images().List(f.ctx); err != nil || len(list) != 1 || list[0].Ref != "localhost/probe:1" {
		t.Errorf("after Remove, List returned %+v, %v", list, err)
	}
}

func TestReferences(t *testing.T) {
	const sum = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for _, c := range []struct {
		given, name string
		local       bool
	}{
		{"nginx", "docker.io/library/nginx:latest", false},
		{"shop/web:3", "docker.io/shop/web:3", false},
		{"localhost/hello:1", "localhost/hello:1", true},
		{"localhost/hello", "localhost/hello:latest", true},
		{"localhost:5000/hello:1", "localhost:5000/hello:1", false},
		{"registry.example/a/b:1@" + sum, "registry.example/a/b@" + sum, false},
	} {
		ref, err := parseRef(c.given)
		if err != nil || ref.name != c.name || ref.local() != c.local {
			t.Errorf("parseRef(%q) = %q, local %v, %v; want %q, %v", c.given, ref.name, ref.local(), err, c.name, c.local)
		}
	}
}
