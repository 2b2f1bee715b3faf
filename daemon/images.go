package daemon

import (
	"context"
	"time"

	"starling.dev/starling/oci"
	"starling.dev/starling/peer"
)

const (
	// imageHold is how long an image that nothing needs stays, so that what was deleted
	// can come back without a pull, as its volumes do.
	imageHold = hold
	// imageRound is how often this machine looks for them.
	imageRound = time.Hour
	// scarce is the free part of the file system below which they do not stay at all.
	scarce = 0.15
)

// collectImages removes what nothing has needed for a while. A round that fails is no reason
// to end: the next one tries again.
func (d *Daemon) collectImages(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(imageRound):
		}
		after := imageHold
		free, size, err := d.runtime.Images().Room(ctx)
		if err == nil && float64(free) < scarce*float64(size) {
			after = 0
		}
		gone, err := d.runtime.Images().Collect(ctx, d.neededImages, after)
		if err != nil && ctx.Err() == nil {
			d.cfg.Logger.Warn("could not collect images; the next round tries again", "error", err, "next", imageRound)
		}
		for _, image := range gone {
			d.cfg.Logger.Info("removed an image that nothing needs", "image", image.Ref, "bytes", image.Size)
		}
	}
}

// neededImages asks for the roots of every pod that is placed here.
func (d *Daemon) neededImages(ctx context.Context) (oci.Needed, error) {
	n := oci.Needed{Refs: map[string][]string{}}
	err := d.loop.Query(ctx, func(c *peer.Core) {
		for _, key := range c.Placed() {
			r := c.Roots(key)
			n.Digests = append(n.Digests, r.Digests...)
			for _, ref := range r.Images {
				n.Refs[ref] = append(n.Refs[ref], key.String())
			}
		}
	})
	return n, err
}
