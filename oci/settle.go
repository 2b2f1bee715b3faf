package oci

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	tasktypes "github.com/containerd/containerd/api/types/task"
	"github.com/containerd/errdefs"

	"starling.dev/starling/loops"
)

// lastLines is how much of a container's output goes with its exit.
const lastLines = 20

// settle takes an ended task's result and deletes the task; the pod's lock is held.
// The order matters: the kernel's count of out-of-memory kills goes with the cgroup,
// the result must be durable before the task that has it goes, and the log is
// complete only after the task is deleted. seen is what an event said, or nil.
func (r *Runtime) settle(ctx context.Context, rec record, seen *exitLabel) (record, error) {
	if rec.Exit == nil && !rec.Stopping {
		exit, err := r.ending(ctx, rec, seen)
		if err != nil {
			return rec, err
		}
		if exit != nil {
			text, err := json.Marshal(exit)
			if err != nil {
				return rec, fmt.Errorf("record the exit of container %s: %w", rec.ID, err)
			}
			if err := r.setLabels(ctx, rec.ID, map[string]string{labelExit: string(text)}); err != nil {
				return rec, err
			}
		}
		rec.Exit = exit
	}
	if err := r.deleteTask(ctx, rec.ID); err != nil {
		return rec, err
	}
	rec.Phase = phaseNone
	r.tell(rec)
	return rec, nil
}

// ending finds out how a task ended: from the task, or, if its shim died and took
// that knowledge along, from what was seen. It is nil for one that never started.
func (r *Runtime) ending(ctx context.Context, rec record, seen *exitLabel) (*exitLabel, error) {
	process, err := r.process(ctx, rec.ID)
	switch {
	case err == nil && process.Status == tasktypes.Status_STOPPED:
		return r.exitLabel(rec, process.ExitStatus, process.ExitedAt.AsTime()), nil
	case err != nil && !errdefs.IsNotFound(err):
		return nil, err
	case rec.Started.IsZero():
		return nil, nil
	case seen != nil:
		return seen, nil
	}
	return &exitLabel{Code: lostCode, At: now()}, nil
}

// exitLabel adds to an exit whether the kernel ran out of the container's memory. A
// container that ended well in spite of that is not said to have failed by it.
func (r *Runtime) exitLabel(rec record, code uint32, at time.Time) *exitLabel {
	exit := &exitLabel{Code: code, At: at}
	if code == 0 {
		return exit
	}
	kills, err := oomKills(rec.cgroup(r.cfg.Namespace))
	if err != nil {
		r.cfg.Logger.Debug("can't tell whether a container ran out of memory", "container", rec.ID, "error", err)
	}
	exit.OOM = kills > 0
	return exit
}

// tell hands a settled exit to whoever watches.
func (r *Runtime) tell(rec record) {
	if rec.Exit == nil || rec.Stopping {
		return
	}
	lines, err := tailRun(r.logDir(rec.PodID, rec.Container), rec.Generation, lastLines)
	if err != nil {
		r.cfg.Logger.Debug("can't read the last output of a container", "container", rec.ID, "error", err)
	}
	r.board.post(rec.ID, loops.Exit{
		PodID:     rec.PodID,
		Container: rec.Container,
		Code:      rec.Exit.Code,
		OOM:       rec.Exit.OOM,
		At:        rec.Exit.At,
		LastLines: lines,
	})
}
