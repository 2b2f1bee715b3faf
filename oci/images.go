package oci

import (
	"context"
	"errors"
	"fmt"
	"io"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"

	"starling.dev/starling/api"
	"starling.dev/starling/loops"
)

// Images are the images that this machine holds.
type Images struct{ *Runtime }

var _ loops.Images = (*Images)(nil)

// ErrNotHeld is what a Fetcher returns when nobody in reach holds the image.
var ErrNotHeld = errors.New("no machine in reach holds the image")

// Fetcher brings an image from somewhere other than its registry: from another peer
// that holds it.
type Fetcher interface {
	// Fetch writes the image as an archive that Import takes, or returns an error
	// that is ErrNotHeld before it has written anything. It may be called at the same
	// time for different images.
	Fetch(ctx context.Context, ref string, w io.Writer) error
}

// Ensure implements loops.Images. The digest is that of what the reference points to:
// an index for an image of several platforms, so that it means the same on every
// machine. An image that is here is not looked up again, even if its tag moved.
func (i *Images) Ensure(ctx context.Context, given string) (string, error) {
	ref, err := parseRef(given)
	if err != nil {
		return "", err
	}
	ctx = i.in(ctx)
	unlock, err := i.refs.lock(ctx, ref.name)
	if err != nil {
		return "", err
	}
	defer unlock()
	image, err := i.settleHeld(ctx, ref)
	if errdefs.IsNotFound(err) {
		if _, err = i.bring(ctx, ref); err == nil {
			image, err = i.settleHeld(ctx, ref)
		}
	}
	if err != nil {
		return "", i.explain(ref, err)
	}
	return image.Target().Digest.String(), nil
}

// settleHeld settles an image that is here. It can't be collected meanwhile, and whoever
// collects afterwards knows of the pod that it is for.
func (i *Images) settleHeld(ctx context.Context, ref imageRef) (containerd.Image, error) {
	i.collecting.RLock()
	defer i.collecting.RUnlock()
	image, err := i.held(ctx, ref)
	if err != nil {
		return nil, err
	}
	return image, i.settleImage(ctx, ref, image)
}

// held returns the image if all that this machine's platform needs of it is here.
func (i *Images) held(ctx context.Context, ref imageRef) (containerd.Image, error) {
	image, err := i.client.GetImage(ctx, ref.name)
	if err != nil {
		return nil, err
	}
	available, _, _, missing, err := images.Check(ctx, i.client.ContentStore(), image.Target(), platforms.Default())
	if err != nil {
		return nil, err
	}
	if !available || len(missing) > 0 {
		return nil, fmt.Errorf("parts of image %s are missing: %w", ref.given, errdefs.ErrNotFound)
	}
	return image, nil
}

// bring fetches the image from a peer, or else pulls it from its registry.
func (i *Images) bring(ctx context.Context, ref imageRef) (containerd.Image, error) {
	if i.cfg.Fetcher != nil {
		image, err := i.fetch(ctx, ref)
		if err == nil {
			return image, nil
		}
		if !errors.Is(err, ErrNotHeld) {
			i.cfg.Logger.Warn("could not fetch an image from another machine", "image", ref.given, "error", err)
		}
	}
	if ref.local() {
		return nil, failure(api.ImageNotFound, nil, "image %s is not on this machine; load it with peer image load -f FILE", ref.given)
	}
	return i.pull(ctx, ref)
}

// fetch imports what the Fetcher writes.
func (i *Images) fetch(ctx context.Context, ref imageRef) (containerd.Image, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	go func() { w.CloseWithError(i.cfg.Fetcher.Fetch(ctx, ref.name, w)) }()
	_, err := i.load(ctx, r, nil)
	r.CloseWithError(errors.Join(err, io.ErrClosedPipe))
	if err != nil {
		return nil, fmt.Errorf("fetch image %s: %w", ref.given, err)
	}
	return i.held(ctx, ref)
}

// unpack makes the image's layers ready to run from. It costs one look if they are.
func (i *Images) unpack(ctx context.Context, ref imageRef, image containerd.Image) error {
	unpacked, err := image.IsUnpacked(ctx, i.cfg.Snapshotter)
	if err != nil || unpacked {
		return err
	}
	if err := image.Unpack(ctx, i.cfg.Snapshotter); err != nil {
		return fmt.Errorf("unpack image %s: %w", ref.given, err)
	}
	return nil
}

// pin gives the image a second name by digest, so that a pod that recorded the digest
// finds it after the tag has moved on, and nothing collects it meanwhile.
func (i *Images) pin(ctx context.Context, ref imageRef, image images.Image) error {
	image.Name, image.Labels = ref.pinned(image.Target.Digest.String()), nil
	_, err := i.client.ImageService().Create(ctx, image)
	if err != nil && !errdefs.IsAlreadyExists(err) {
		return fmt.Errorf("keep image %s: %w", ref.given, err)
	}
	return nil
}

// settleImage makes an image that is here ready to run, and keeps it. An image for
// other machines is forgotten instead, so that it is looked up again the next time:
// its tag may have been corrected by then.
func (i *Images) settleImage(ctx context.Context, ref imageRef, image containerd.Image) error {
	found, err := images.Platforms(ctx, i.client.ContentStore(), image.Target())
	if err != nil {
		return err
	}
	if err := platformError(ref, found); err != nil {
		return errors.Join(err, i.forget(ctx, image.Name()))
	}
	if err := i.unpack(ctx, ref, image); err != nil {
		return err
	}
	return i.pin(ctx, ref, image.Metadata())
}

// forget removes a name; what nothing else names is collected.
func (i *Images) forget(ctx context.Context, name string) error {
	err := i.client.ImageService().Delete(ctx, name)
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("remove image %s: %w", name, err)
	}
	return nil
}

// image finds the image that a container is to run: the one of its digest, if it has
// one, else whatever its reference points to now.
func (i *Images) image(ctx context.Context, given, digest string) (containerd.Image, error) {
	ref, err := parseRef(given)
	if err != nil {
		return nil, err
	}
	name := ref.name
	if digest != "" {
		name = ref.pinned(digest)
	}
	image, err := i.client.GetImage(ctx, name)
	if errdefs.IsNotFound(err) {
		return nil, failure(api.ImageNotFound, err, "image %s is no longer on this machine", name)
	}
	return image, err
}
