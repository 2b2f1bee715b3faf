package oci

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"starling.dev/starling/oci/testimage"
)

// startRegistry serves a registry on a loopback address, and returns HOST:PORT.
func startRegistry(t *testing.T, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(wrap(handler))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func open(h http.Handler) http.Handler { return h }

// push builds the probe's image for an architecture and pushes it as "HOST/REPO:TAG".
func push(t *testing.T, ref, architecture string) v1.Image {
	t.Helper()
	image := probeImage(t, architecture)
	pushImage(t, ref, image)
	return image
}

func pushImage(t *testing.T, ref string, image v1.Image) {
	t.Helper()
	if err := testimage.Push(t.Context(), ref, image); err != nil {
		t.Fatal(err)
	}
}

// pushIndex uploads images by their digests and then the index of them.
func pushIndex(t *testing.T, ref string, index v1.ImageIndex, images ...v1.Image) {
	t.Helper()
	at := strings.LastIndex(ref, ":")
	for _, image := range images {
		pushImage(t, ref[:at+1]+digestOf(t, image), image)
	}
	if err := testimage.PushManifest(t.Context(), ref, index); err != nil {
		t.Fatal(err)
	}
}

func probeImage(t *testing.T, architecture string) v1.Image {
	t.Helper()
	image, err := testimage.Image(testimage.Options{Binary: needRoot(t).binary, Architecture: architecture, Cmd: []string{"wait"}})
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func digestOf(t *testing.T, m testimage.Manifest) string {
	t.Helper()
	digest, err := m.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}
