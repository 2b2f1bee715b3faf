package peer

import (
	"io"

	"starling.dev/starling/crdt"
)

// Checkpoints is a Disk that keeps a checkpoint, too. Optional.
type Checkpoints interface {
	// SaveCheckpoint replaces the checkpoint, as a whole, by what write writes: about size
	// bytes. It may run beside commits.
	SaveCheckpoint(size int64, write func(io.Writer) error) error
}

// saveIfDue writes a checkpoint beside what goes on.
func (d *driver) saveIfDue() {
	disk, ok := d.disk.(Checkpoints)
	if !ok || !d.core.CheckpointDue() || !d.saving.CompareAndSwap(false, true) {
		return
	}
	c := d.core.Checkpoint()
	d.actions.Go(func() {
		defer d.saving.Store(false)
		d.save(disk, c)
	})
}

// saveLast writes a checkpoint before a clean stop.
func (d *driver) saveLast() {
	if disk, ok := d.disk.(Checkpoints); ok && d.core.CheckpointUseful() {
		d.save(disk, d.core.Checkpoint())
	}
}

// save writes a checkpoint. If that fails the next start takes longer, and that is all.
func (d *driver) save(disk Checkpoints, c *crdt.Checkpoint) {
	if err := disk.SaveCheckpoint(c.Size(), c.Write); err != nil {
		d.l.cfg.Logger.Warn("no checkpoint was saved; the next start will take longer", "error", err)
	}
}
