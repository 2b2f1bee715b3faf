package e2e

import (
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"starling.dev/starling/lab"
	"starling.dev/starling/oci/testimage"
)

// Registries as the machines reach them: each at the same loopback address in the network
// of every machine. At portDown nobody listens.
const (
	portOpen    = 5000
	portPrivate = 5001
	portGuarded = 5002
	portDown    = 5009
)

func registryImage(port int, image string) string {
	return fmt.Sprintf("127.0.0.1:%d/%s", port, image)
}

// withRegistries serves one registry's content with and without a password.
func withRegistries(t *testing.T, c *cluster) {
	t.Helper()
	content := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	private := func(w http.ResponseWriter, r *http.Request) {
		if user, secret, _ := r.BasicAuth(); user != "alice" || secret != "open sesame" {
			w.Header().Set("WWW-Authenticate", `Basic realm="private"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		content.ServeHTTP(w, r)
	}
	here := httptest.NewServer(content)
	t.Cleanup(here.Close)
	push(t, c, strings.TrimPrefix(here.URL, "http://")+"/hello:1", runtime.GOARCH)
	push(t, c, strings.TrimPrefix(here.URL, "http://")+"/foreign:1", "s390x")
	for n := 1; n <= machines; n++ {
		c.serveAt(t, n, portOpen, content)
		c.serveAt(t, n, portPrivate, http.HandlerFunc(private))
		c.serveAt(t, n, portGuarded, http.HandlerFunc(private))
	}
	c.authorize(t, "bob", "guess")
}

// serveAt serves HTTP at a loopback port of machine n.
func (c *cluster) serveAt(t *testing.T, n, port int, h http.Handler) {
	t.Helper()
	var l net.Listener
	err := c.lab.Within(n, func() (err error) {
		l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	s.Start()
	t.Cleanup(s.Close)
}

// push builds the image for an architecture and pushes it.
func push(t *testing.T, c *cluster, ref, architecture string) {
	t.Helper()
	image, err := testimage.Image(testimage.Options{Binary: filepath.Join(c.dir, "hello"), Architecture: architecture})
	if err != nil {
		t.Fatal(err)
	}
	if err := testimage.Push(t.Context(), ref, image); err != nil {
		t.Fatal(err)
	}
}

// authorize gives every machine credentials for the guarded registry, and none for the
// private one.
func (c *cluster) authorize(t *testing.T, user, secret string) {
	t.Helper()
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + secret))
	content := fmt.Sprintf(`{"auths": {"127.0.0.1:%d": {"auth": %q}}}`, portGuarded, auth)
	for n := 1; n <= machines; n++ {
		file := authFile(n)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Remove(file) })
	}
}

func authFile(n int) string {
	return filepath.Join(lab.DataDir, labName, fmt.Sprint(n), "data", "auth.json")
}

func registryCauses() []cause {
	return []cause{
		{
			name: "image that its registry does not have",
			pod:  podSpec{image: registryImage(portOpen, "nosuch:1")},
			says: `: image on m\d: registry 127\.0\.0\.1:5000 has no image 127\.0\.0\.1:5000/nosuch:1; check the name and the tag; it is tried again`,
			todo: "Check the reference", step: "image is retrying on m",
		}, {
			name: "image for another architecture",
			pod:  podSpec{image: registryImage(portOpen, "foreign:1")},
			says: `: image on m\d: image 127\.0\.0\.1:5000/foreign:1 is for linux/s390x, and this machine is linux/` + runtime.GOARCH,
			todo: "Build it for that architecture", step: "image is retrying on m",
		}, {
			name: "registry down",
			pod:  podSpec{image: registryImage(portDown, "hello:1")},
			says: `: image on m\d: registry 127\.0\.0\.1:5009 is not to be reached for image .*connection refused; it is tried again`,
			todo: "Check the registry", step: "image is retrying on m",
		}, {
			name: "no credentials",
			pod:  podSpec{image: registryImage(portPrivate, "hello:1")},
			says: `: image on m\d: registry 127\.0\.0\.1:5001 refuses image .*: it needs credentials, and \S+/data/auth.json has none for it; it is tried again`,
			todo: "Use other credentials", step: "image is retrying on m",
		}, {
			name: "wrong credentials",
			pod:  podSpec{image: registryImage(portGuarded, "hello:1")},
			says: `: image on m\d: registry 127\.0\.0\.1:5002 refuses image .*: it does not take the credentials of user bob in \S+/data/auth.json`,
			todo: "Use other credentials", step: "image is retrying on m",
			mend: func(t *testing.T, c *cluster, _ string) { c.authorize(t, "alice", "open sesame") },
		},
	}
}
