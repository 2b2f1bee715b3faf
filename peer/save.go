package peer

import (
	"context"
	"errors"
	"io"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
)

// Checkpoints is a Disk that keeps a checkpoint, too. Optional.
type Checkpoints interface {
	// SaveCheckpoint replaces the checkpoint, as a whole, by what write writes, about size
	// bytes, and opens it. It may run beside commits.
	SaveCheckpoint(size int64, write func(io.Writer) error) (crdt.File, error)
}

// saveIfDue writes a checkpoint beside what goes on.
func (d *driver) saveIfDue(ctx context.Context) {
	disk, ok := d.disk.(Checkpoints)
	if !ok || !d.core.CheckpointDue() || !d.saving.CompareAndSwap(false, true) {
		return
	}
	c := d.core.Checkpoint()
	d.actions.Go(func() {
		file, err := d.save(disk, c)
		if file == nil {
			d.reread(ctx, err)
			d.saving.Store(false)
			return
		}
		settle := func(core *Core) {
			err = core.Settle(c, file)
			d.saving.Store(false) // before the turn ends: what came meanwhile may be enough for the next one
		}
		if stopping := d.l.Query(ctx, settle); stopping != nil {
			err = file.Close()
		}
		if err != nil {
			d.l.cfg.Logger.Warn("a checkpoint can't be closed", "error", err)
		}
	})
}

// reread has the core read the object that kept a checkpoint from being written, if one
// did: it is folded anew if it can't.
func (d *driver) reread(ctx context.Context, err error) {
	if lost := new(crdt.Unreadable); errors.As(err, &lost) {
		_ = d.l.Query(ctx, func(core *Core) { core.Incarnations(api.Key(lost.Object)) }) // or the peer is stopping
	}
}

// saveLast writes a checkpoint before a clean stop.
func (d *driver) saveLast() {
	disk, ok := d.disk.(Checkpoints)
	if !ok || !d.core.CheckpointUseful() {
		return
	}
	if file, _ := d.save(disk, d.core.Checkpoint()); file != nil {
		_ = file.Close() // it was only read
	}
}

// save writes a checkpoint. If that fails the next start takes longer, and that is all.
func (d *driver) save(disk Checkpoints, c *crdt.Checkpoint) (crdt.File, error) {
	file, err := disk.SaveCheckpoint(c.Size(), c.Write)
	if err != nil {
		d.l.cfg.Logger.Warn("no checkpoint was saved; the next start will take longer", "error", err)
		return nil, err
	}
	return file, nil
}

func (l *Loop) setDown(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = err
}

func (l *Loop) opened(disk Disk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down, l.disk = nil, disk
}

func (l *Loop) saved(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsaved = err
}

// Unsaved is why the last commit failed, until one succeeds; nil while all is well.
func (l *Loop) Unsaved() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down != nil {
		return l.down
	}
	return l.unsaved
}
