package oci

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"starling.dev/starling/api"
)

const (
	// labelLoaded marks an image that a person loaded: it may be the only copy there is,
	// so nothing but a person takes it away.
	labelLoaded = "starling.dev/loaded"
	// labelUnneeded says since when nothing needs the image, in RFC 3339. Empty: it is
	// needed.
	labelUnneeded = "starling.dev/unneeded"
)

// Needed are the images that something on this machine needs. Of a name, the image that
// it points to is needed, too.
type Needed struct {
	// Refs are references as specs have them, and who needs each: "pod/web".
	Refs map[string][]string
	// Digests are those that containers were made from.
	Digests []string
}

// names completes the references.
func (n Needed) names() (map[string][]string, error) {
	names := make(map[string][]string, len(n.Refs))
	for given, by := range n.Refs {
		ref, err := parseRef(given)
		if err != nil {
			return nil, err
		}
		names[ref.name] = append(names[ref.name], by...)
	}
	return names, nil
}

// Need tells what is needed at the moment that it is called.
type Need func(context.Context) (Needed, error)

// Collect removes the names of the images that this machine fetched or pulled and that
// nothing has needed for a time, and returns them. containerd then removes the content that
// nothing else refers to.
//
// It can't take away what a pod is about to use: need is asked while no image is settled,
// and a pod is known before its images are.
func (i *Images) Collect(ctx context.Context, need Need, after time.Duration) ([]Image, error) {
	ctx = i.in(ctx)
	i.collecting.Lock()
	defer i.collecting.Unlock()
	held, err := i.client.ImageService().List(ctx)
	if err != nil {
		return nil, i.Runtime.explain(fmt.Errorf("list images: %w", err))
	}
	wanted, err := wantedOf(ctx, need, held)
	if err != nil {
		return nil, err
	}
	var gone []images.Image
	now := time.Now()
	for _, image := range held {
		due, err := i.note(ctx, image, wanted[image.Name], now, after)
		if err != nil {
			return nil, err
		}
		if due {
			gone = append(gone, image)
		}
	}
	return i.remove(ctx, gone)
}

// wantedOf returns the names to keep: those that are needed or loaded, and the pinned
// names of their digests.
func wantedOf(ctx context.Context, need Need, held []images.Image) (map[string]bool, error) {
	needed, err := need(ctx)
	if err != nil {
		return nil, err
	}
	names, err := needed.names()
	if err != nil {
		return nil, err
	}
	wanted, digests := map[string]bool{}, map[string]bool{}
	for _, d := range needed.Digests {
		digests[d] = true
	}
	for _, image := range held {
		if names[image.Name] != nil || image.Labels[labelLoaded] != "" {
			wanted[image.Name], digests[image.Target.Digest.String()] = true, true
		}
	}
	for _, image := range held {
		if pinned := strings.Contains(image.Name, "@"); pinned && digests[image.Target.Digest.String()] {
			wanted[image.Name] = true
		}
	}
	return wanted, nil
}

// note writes down since when an image is needed or not, and tells whether its time is
// over.
func (i *Images) note(ctx context.Context, image images.Image, wanted bool, now time.Time, after time.Duration) (due bool, err error) {
	since, err := time.Parse(time.RFC3339, image.Labels[labelUnneeded])
	known := err == nil
	mark := ""
	switch {
	case wanted && image.Labels[labelUnneeded] == "":
		return false, nil
	case wanted:
	case known && now.Sub(since) >= after, after == 0:
		return true, nil
	case known:
		return false, nil
	default:
		mark = now.UTC().Format(time.RFC3339)
	}
	image.Labels = map[string]string{labelUnneeded: mark}
	_, err = i.client.ImageService().Update(ctx, image, "labels."+labelUnneeded)
	if err != nil && !errdefs.IsNotFound(err) {
		return false, i.Runtime.explain(fmt.Errorf("note that image %s is not needed: %w", image.Name, err))
	}
	return false, nil
}

// remove forgets names. The last call waits until containerd removed the content, so that
// the room is there when it returns.
func (i *Images) remove(ctx context.Context, gone []images.Image) ([]Image, error) {
	described, err := i.describe(ctx, gone)
	if err != nil {
		return nil, i.Runtime.explain(err)
	}
	for n, image := range gone {
		var opts []images.DeleteOpt
		if n == len(gone)-1 {
			opts = append(opts, images.SynchronousDelete())
		}
		err := i.client.ImageService().Delete(ctx, image.Name, opts...)
		if err != nil && !errdefs.IsNotFound(err) {
			return nil, i.Runtime.explain(fmt.Errorf("remove image %s: %w", image.Name, err))
		}
	}
	return described, nil
}

// Discard removes one image by its name, loaded or not, unless something needs it.
func (i *Images) Discard(ctx context.Context, given string, need Need) (Image, error) {
	ref, err := parseRef(given)
	if err != nil {
		return Image{}, err
	}
	ctx = i.in(ctx)
	i.collecting.Lock()
	defer i.collecting.Unlock()
	image, err := i.client.ImageService().Get(ctx, ref.name)
	if errdefs.IsNotFound(err) {
		return Image{}, failure(api.NotFound, nil, "image %s is not on this machine; `peer image ls` lists those that are, and where", given)
	}
	if err != nil {
		return Image{}, i.Runtime.explain(fmt.Errorf("look up image %s: %w", given, err))
	}
	needed, err := need(ctx)
	if err != nil {
		return Image{}, err
	}
	names, err := needed.names()
	if err != nil {
		return Image{}, err
	}
	if by := names[ref.name]; len(by) > 0 {
		slices.Sort(by)
		return Image{}, failure(api.Conflict, nil, "image %s is needed by %s; delete what needs it first", given, strings.Join(slices.Compact(by), ", "))
	}
	gone, err := i.remove(ctx, []images.Image{image})
	if err != nil {
		return Image{}, err
	}
	return gone[0], nil
}

// Room returns the free and the whole size, in bytes, of the file system that images are
// unpacked to.
func (i *Images) Room(ctx context.Context) (free, size uint64, err error) {
	got, err := i.client.IntrospectionService().Plugins(i.in(ctx), "type==io.containerd.snapshotter.v1,id=="+i.cfg.Snapshotter)
	if err != nil {
		return 0, 0, i.Runtime.explain(fmt.Errorf("find where images lie: %w", err))
	}
	for _, p := range got.GetPlugins() {
		root := p.GetExports()["root"]
		if root == "" {
			continue
		}
		var s unix.Statfs_t
		if err := unix.Statfs(root, &s); err != nil {
			return 0, 0, fmt.Errorf("read the room in %s: %w", root, err)
		}
		return s.Bavail * uint64(s.Bsize), s.Blocks * uint64(s.Bsize), nil
	}
	return 0, 0, fmt.Errorf("find where images lie: containerd has no snapshotter %s", i.cfg.Snapshotter)
}
