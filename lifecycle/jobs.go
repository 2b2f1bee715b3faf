package lifecycle

import "fmt"

// Mode says what a switch does when another switch of the object is under way, as the
// job modes of systemd do.
type Mode string

// The modes of a switch.
const (
	// ModeFail refuses the switch if it goes elsewhere than the one under way.
	ModeFail Mode = "fail"
	// ModeReplace takes the place of the one under way.
	ModeReplace Mode = "replace"
	// ModeIrreversible does too, and can then only be cancelled, not replaced.
	ModeIrreversible Mode = "irreversible"
)

// ParseMode reads a mode; the empty word is ModeReplace.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case "":
		return ModeReplace, nil
	case ModeFail, ModeReplace, ModeIrreversible:
		return m, nil
	}
	return "", fmt.Errorf("there is no mode %q; the modes are %s, %s and %s", s, ModeFail, ModeReplace, ModeIrreversible)
}

// Job is a switch of an object to a target.
type Job struct {
	Goal string
	// From is where the object was when it last was at rest: a cancelled job returns
	// there.
	From string
	Mode Mode
}

// Outcome is what becomes of a switch that is asked for.
type Outcome string

// The outcomes of a switch.
const (
	OutcomeStarted  Outcome = "started"  // nothing was under way
	OutcomeJoined   Outcome = "joined"   // the same goal was under way already
	OutcomeReplaced Outcome = "replaced" // the one under way was given up
	OutcomeRefused  Outcome = "refused"
	OutcomeNothing  Outcome = "nothing" // the object is there
)

// Switch decides what becomes of a switch to a goal. now is the object's job, and
// reached whether it is at rest there. It is a table with these laws:
//
//   - At rest every switch starts, whatever the mode of the job before.
//   - The same goal is joined; the stricter mode stays, so that asking twice is asking
//     once.
//   - A deletion is never replaced, and replaces everything.
//   - What is irreversible is replaced by nothing else.
//   - A refusal changes nothing.
func Switch(now Job, reached bool, goal string, mode Mode) (Job, Outcome) {
	next := Job{Goal: goal, From: now.From, Mode: mode}
	if reached {
		next.From = now.Goal
	}
	if goal == Deleted {
		next.Mode = ModeIrreversible
	}
	switch {
	case goal == now.Goal && reached:
		return now, OutcomeNothing
	case goal == now.Goal:
		if next.Mode == ModeIrreversible {
			now.Mode = ModeIrreversible
		}
		return now, OutcomeJoined
	case now.Goal == Deleted:
		return now, OutcomeRefused
	case reached:
		return next, OutcomeStarted
	case goal == Deleted:
		return next, OutcomeReplaced
	case now.Mode == ModeIrreversible || mode == ModeFail:
		return now, OutcomeRefused
	}
	return next, OutcomeReplaced
}

// Cancel gives up a job that is under way: the object returns to where it was at rest.
// Whatever the mode, a job can be cancelled; only a deletion can't, since what was
// taken down is gone.
func Cancel(now Job, reached bool) (Job, Outcome) {
	switch {
	case now.Goal == Deleted:
		return now, OutcomeRefused
	case reached || now.From == "" || now.From == now.Goal:
		return now, OutcomeNothing
	}
	return Job{Goal: now.From, From: now.From, Mode: ModeReplace}, OutcomeReplaced
}

// Refusal says why a switch was refused, and what to do.
func Refusal(key fmt.Stringer, now Job, goal string) string {
	switch {
	case now.Goal == Deleted:
		return fmt.Sprintf("%s is being deleted and can't be switched to %s; create it anew once it is gone", key, goal)
	case now.Mode == ModeIrreversible:
		return fmt.Sprintf("%s is being switched to %s irreversibly; wait for it, or give it up with `peer switch %s --cancel`", key, now.Goal, key)
	}
	return fmt.Sprintf("%s is being switched to %s; wait for it, or use --mode %s", key, now.Goal, ModeReplace)
}
