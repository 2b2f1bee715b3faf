package oci

import (
	"cmp"
	"slices"
)

// Restart policies of a container.
const (
	restartAlways    = "always"
	restartOnFailure = "on-failure"
	restartNever     = "never"
)

// lostCode is the exit code of a container whose end nobody saw: its machine went
// down under it.
const lostCode = 255

// decision is what to do about one container.
type decision struct {
	// keep is the generation that stays; nil if a new one is to be made.
	keep *record
	// start: keep was created and is yet to be started.
	start bool
	// exited is set if keep has ended and is not to be started again.
	exited *exitLabel
	// restarts is the count for a new generation.
	restarts uint32
	// retire are the generations to be stopped and removed, newest first. They are
	// stopped only once the successor is ready to start.
	retire []record
}

// decide compares the wanted spec's hash with the generations that exist. It is pure.
//
// Only the newest generation that was made from this spec can stay. If it ended by
// itself, the restart policy says whether another follows.
func decide(want, restart string, have []record) decision {
	have = slices.Clone(have)
	slices.SortFunc(have, func(a, b record) int { return cmp.Compare(b.Generation, a.Generation) })
	at := slices.IndexFunc(have, func(r record) bool { return r.SpecHash == want })
	if at < 0 {
		return decision{retire: have}
	}
	newest := have[at]
	d := judge(newest, restart)
	for i, r := range have {
		if i != at || d.keep == nil {
			d.retire = append(d.retire, r)
		}
	}
	return d
}

// judge decides about a generation made from the wanted spec, taken by itself.
func judge(r record, restart string) decision {
	switch {
	case r.Stopping || r.Stale:
		return decision{restarts: r.Restarts}
	case r.Phase == phaseRunning:
		return decision{keep: &r}
	case r.Phase == phaseCreated:
		return decision{keep: &r, start: true}
	case r.Exit == nil && r.Started.IsZero():
		return decision{restarts: r.Restarts}
	}
	exit := r.Exit
	if exit == nil {
		exit = &exitLabel{Code: lostCode, At: r.Started}
	}
	if startsAgain(restart, exit.Code) {
		return decision{restarts: r.Restarts + 1}
	}
	return decision{keep: &r, exited: exit}
}

// startsAgain applies the restart policy; an empty one is "always".
func startsAgain(restart string, code uint32) bool {
	switch restart {
	case restartNever:
		return false
	case restartOnFailure:
		return code != 0
	}
	return true
}
