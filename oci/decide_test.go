package oci

import (
	"testing"
	"time"
)

func TestDecide(t *testing.T) {
	started := time.Unix(100, 0)
	running := record{ID: "running", Generation: 2, SpecHash: "want", Phase: phaseRunning, PID: 7, Restarts: 4, Started: started}
	older := record{ID: "older", Generation: 1, SpecHash: "old", Phase: phaseRunning}
	with := func(change func(*record)) record {
		r := running
		change(&r)
		return r
	}
	created := with(func(r *record) { r.Phase = phaseCreated; r.Started = time.Time{} })
	failed := with(func(r *record) { r.Phase = phaseNone; r.Exit = &exitLabel{Code: 3} })
	done := with(func(r *record) { r.Phase = phaseNone; r.Exit = &exitLabel{} })
	lost := with(func(r *record) { r.Phase = phaseNone })
	never := with(func(r *record) { r.Phase = phaseNone; r.Started = time.Time{} })
	stopping := with(func(r *record) { r.Stopping = true })
	stale := with(func(r *record) { r.Stale = true })
	for _, c := range []struct {
		name     string
		restart  string
		have     []record
		keep     string
		start    bool
		exited   int // code; -1: not
		restarts uint32
		retire   int
	}{
		{"nothing there", restartAlways, nil, "", false, -1, 0, 0},
		{"another spec runs", restartAlways, []record{older}, "", false, -1, 0, 1},
		{"it runs", restartAlways, []record{running}, "running", false, -1, 0, 0},
		{"it runs beside an older one", restartAlways, []record{older, running}, "running", false, -1, 0, 1},
		{"made but not started: the peer died between", restartAlways, []record{older, created}, "running", true, -1, 0, 1},
		{"never made completely", restartNever, []record{never}, "", false, -1, 4, 1},
		{"we were stopping it", restartNever, []record{stopping}, "", false, -1, 4, 1},
		{"in a network namespace that is gone", restartAlways, []record{stale}, "", false, -1, 4, 1},
		{"failed, always", restartAlways, []record{failed}, "", false, -1, 5, 1},
		{"failed, no policy", "", []record{failed}, "", false, -1, 5, 1},
		{"failed, on failure", restartOnFailure, []record{failed}, "", false, -1, 5, 1},
		{"failed, never", restartNever, []record{failed}, "running", false, 3, 0, 0},
		{"done, always", restartAlways, []record{done}, "", false, -1, 5, 1},
		{"done, on failure", restartOnFailure, []record{done}, "running", false, 0, 0, 0},
		{"lost, on failure", restartOnFailure, []record{lost}, "", false, -1, 5, 1},
		{"lost, never", restartNever, []record{lost}, "running", false, lostCode, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := decide("want", c.restart, c.have)
			keep, exited := "", -1
			if d.keep != nil {
				keep = d.keep.ID
			}
			if d.exited != nil {
				exited = int(d.exited.Code)
			}
			if keep != c.keep || d.start != c.start || exited != c.exited || d.restarts != c.restarts || len(d.retire) != c.retire {
				t.Errorf("decided %+v", d)
			}
		})
	}
}

// Of two generations of one spec only the newest can stay: an older one is what a
// restart that was interrupted left.
func TestDecideKeepsTheNewestOfOneSpec(t *testing.T) {
	old := record{ID: "old", Generation: 1, SpecHash: "want", Phase: phaseRunning}
	next := record{ID: "next", Generation: 2, SpecHash: "want", Phase: phaseCreated}
	d := decide("want", restartAlways, []record{old, next})
	if d.keep == nil || d.keep.ID != "next" || !d.start || len(d.retire) != 1 || d.retire[0].ID != "old" {
		t.Errorf("decided %+v", d)
	}
}
