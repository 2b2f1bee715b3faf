package oci

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

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

// manifest is what an image and an index have in common.
type manifest interface {
	RawManifest() ([]byte, error)
	MediaType() (types.MediaType, error)
	Digest() (v1.Hash, error)
}

// push builds the probe's image for an architecture and pushes it as "HOST/REPO:TAG".
func push(t *testing.T, ref, architecture string) v1.Image {
	t.Helper()
	image := probeImage(t, architecture)
	pushImage(t, ref, image)
	return image
}

// pushImage uploads an image's parts and then its manifest.
func pushImage(t *testing.T, ref string, image v1.Image) {
	t.Helper()
	host, repository, tag := cutRef(ref)
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			t.Fatal(err)
		}
		content, err := layer.Compressed()
		if err != nil {
			t.Fatal(err)
		}
		send(t, http.MethodPost, "http://"+host+"/v2/"+repository+"/blobs/uploads/?digest="+digest.String(), "", content)
	}
	config, err := image.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	name, err := image.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	send(t, http.MethodPost, "http://"+host+"/v2/"+repository+"/blobs/uploads/?digest="+name.String(), "", bytes.NewReader(config))
	pushManifest(t, host, repository, tag, image)
}

// pushIndex uploads images by their digests and then the index of them.
func pushIndex(t *testing.T, ref string, index v1.ImageIndex, images ...v1.Image) {
	t.Helper()
	host, repository, tag := cutRef(ref)
	for _, image := range images {
		pushImage(t, host+"/"+repository+":"+digestOf(t, image), image)
	}
	pushManifest(t, host, repository, tag, index)
}

func pushManifest(t *testing.T, host, repository, tag string, m manifest) {
	t.Helper()
	raw, err := m.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	media, err := m.MediaType()
	if err != nil {
		t.Fatal(err)
	}
	send(t, http.MethodPut, "http://"+host+"/v2/"+repository+"/manifests/"+tag, string(media), bytes.NewReader(raw))
}

func send(t *testing.T, method, url, media string, body io.Reader) {
	t.Helper()
	request, err := http.NewRequest(method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", media)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusCreated {
		t.Fatalf("%s %s: %s", method, url, answer.Status)
	}
}

// cutRef splits "HOST/REPO:TAG", where the tag may be a digest.
func cutRef(ref string) (host, repository, tag string) {
	host, rest, _ := strings.Cut(ref, "/")
	repository, tag, _ = strings.Cut(rest, ":")
	return host, repository, tag
}

func probeImage(t *testing.T, architecture string) v1.Image {
	t.Helper()
	image, err := testimage.Image(testimage.Options{Binary: needRoot(t).binary, Architecture: architecture, Cmd: []string{"wait"}})
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func digestOf(t *testing.T, m manifest) string {
	t.Helper()
	digest, err := m.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}
