package oci

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/images/archive"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"

	"starling.dev/starling/api"
)

// Image is one image that the machine holds.
type Image struct {
	// Ref is its name in full: "localhost/hello:1".
	Ref string
	// Digest is the digest of what the name points to.
	Digest string
	// Size is the compressed size on this machine in bytes.
	Size int64
	// Created is when the name was first known here.
	Created time.Time
}

// Import reads an archive, as `docker save` or any OCI tool writes it, and makes the
// images in it ready to run. It returns them by name; an archive without a named
// image is refused.
func (i *Images) Import(ctx context.Context, r io.Reader) ([]Image, error) {
	loaded, err := i.load(i.in(ctx), r, map[string]string{labelLoaded: "yes"})
	if err != nil {
		return nil, err
	}
	return i.describe(i.in(ctx), loaded)
}

// load is Import within containerd's own types; it labels the images.
func (i *Images) load(ctx context.Context, r io.Reader, labels map[string]string) ([]images.Image, error) {
	source := &sourceReader{r: r}
	loaded, err := i.client.Import(ctx, source, containerd.WithSkipMissing(), containerd.WithAllPlatforms(true), containerd.WithImageLabels(labels))
	switch {
	case source.err != nil:
		return nil, fmt.Errorf("read the image archive: %w", source.err)
	case errdefs.IsUnavailable(err):
		return nil, &unreachable{socket: i.cfg.Socket, cause: err}
	case err != nil:
		return nil, failure(api.Invalid, err, "load the image archive: %v; it must be a tar file as `docker save` writes it", err)
	case len(loaded) == 0:
		return nil, failure(api.Invalid, nil, "the image archive names no image; save it with its name (docker save NAME:TAG)")
	}
	for _, image := range loaded {
		ref, err := parseRef(image.Name)
		if err != nil {
			return nil, err
		}
		if err := i.settleImage(ctx, ref, containerd.NewImage(i.client, image)); err != nil {
			return nil, err
		}
	}
	return loaded, nil
}

// Export writes an image that this machine holds as an archive that Import takes,
// with its digest kept. The error is ErrNotHeld if it is not here.
func (i *Images) Export(ctx context.Context, given string, w io.Writer) error {
	ref, err := parseRef(given)
	if err != nil {
		return err
	}
	ctx = i.in(ctx)
	image, err := i.client.ImageService().Get(ctx, ref.name)
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("export image %s: %w", given, ErrNotHeld)
	}
	if err != nil {
		return fmt.Errorf("export image %s: %w", given, err)
	}
	err = i.client.Export(ctx, w,
		archive.WithImages([]images.Image{image}),
		archive.WithPlatform(platforms.Default()),
		archive.WithSkipMissing(i.client.ContentStore()))
	if err != nil {
		return fmt.Errorf("export image %s: %w", given, err)
	}
	return nil
}

// List returns the images that this machine holds, by name.
func (i *Images) List(ctx context.Context) ([]Image, error) {
	ctx = i.in(ctx)
	held, err := i.client.ImageService().List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	named := slices.DeleteFunc(held, func(image images.Image) bool { return strings.Contains(image.Name, "@") })
	return i.describe(ctx, named)
}

// Remove forgets every name whose image keep does not want, the pinned ones
// ("REPOSITORY@DIGEST") included. containerd then collects what nothing refers to.
func (i *Images) Remove(ctx context.Context, keep func(Image) bool) error {
	ctx = i.in(ctx)
	held, err := i.client.ImageService().List(ctx)
	if err != nil {
		return fmt.Errorf("list images: %w", err)
	}
	for _, image := range held {
		if keep(Image{Ref: image.Name, Digest: image.Target.Digest.String(), Created: image.CreatedAt}) {
			continue
		}
		if err := i.forget(ctx, image.Name); err != nil {
			return err
		}
	}
	return nil
}

// describe adds sizes.
func (i *Images) describe(ctx context.Context, list []images.Image) ([]Image, error) {
	var described []Image
	for _, image := range list {
		size, err := image.Size(ctx, i.client.ContentStore(), platforms.Default())
		if err != nil && !errdefs.IsNotFound(err) {
			return nil, fmt.Errorf("measure image %s: %w", image.Name, err)
		}
		described = append(described, Image{Ref: image.Name, Digest: image.Target.Digest.String(), Size: size, Created: image.CreatedAt})
	}
	slices.SortFunc(described, func(a, b Image) int { return cmp.Compare(a.Ref, b.Ref) })
	return described, nil
}

// sourceReader remembers a failure of the source, which importing would otherwise
// report as a malformed archive.
type sourceReader struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (s *sourceReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}
