package testimage

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Manifest is what an image and an index have in common.
type Manifest interface {
	RawManifest() ([]byte, error)
	MediaType() (types.MediaType, error)
	Digest() (v1.Hash, error)
}

// Push uploads an image's parts and then its manifest to a registry that takes them
// without TLS and without questions, as "HOST/REPO:TAG"; the tag may be a digest.
func Push(ctx context.Context, ref string, image v1.Image) error {
	layers, err := image.Layers()
	if err != nil {
		return fmt.Errorf("push %s: %w", ref, err)
	}
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			return fmt.Errorf("push %s: %w", ref, err)
		}
		content, err := layer.Compressed()
		if err != nil {
			return fmt.Errorf("push %s: %w", ref, err)
		}
		if err := blob(ctx, ref, digest, content); err != nil {
			return err
		}
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return fmt.Errorf("push %s: %w", ref, err)
	}
	name, err := image.ConfigName()
	if err != nil {
		return fmt.Errorf("push %s: %w", ref, err)
	}
	if err := blob(ctx, ref, name, bytes.NewReader(config)); err != nil {
		return err
	}
	return PushManifest(ctx, ref, image)
}

// PushManifest uploads the manifest alone, of an image or of an index.
func PushManifest(ctx context.Context, ref string, m Manifest) error {
	raw, err := m.RawManifest()
	if err != nil {
		return fmt.Errorf("push %s: %w", ref, err)
	}
	media, err := m.MediaType()
	if err != nil {
		return fmt.Errorf("push %s: %w", ref, err)
	}
	repository, tag := cutRef(ref)
	return send(ctx, http.MethodPut, repository+"/manifests/"+tag, string(media), bytes.NewReader(raw))
}

func blob(ctx context.Context, ref string, digest v1.Hash, content io.Reader) error {
	repository, _ := cutRef(ref)
	return send(ctx, http.MethodPost, repository+"/blobs/uploads/?digest="+digest.String(), "", content)
}

func send(ctx context.Context, method, url, media string, body io.Reader) error {
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", media)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusCreated {
		return fmt.Errorf("%s %s: %s", method, url, answer.Status)
	}
	return nil
}

// cutRef splits "HOST/REPO:TAG", where the tag may be a digest, into the URL of the
// repository and the tag.
func cutRef(ref string) (repository, tag string) {
	host, rest, _ := strings.Cut(ref, "/")
	name, tag, _ := strings.Cut(rest, ":")
	return "http://" + host + "/v2/" + name, tag
}
