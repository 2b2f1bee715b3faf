package server

import (
	"context"
	"fmt"
	"strings"
	"time"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/peer"
)

// Why returns the shortest true chain from what is wanted to what holds it up.
func (s *Server) Why(ctx context.Context, req *apiv1.WhyRequest) (*apiv1.WhyResponse, error) {
	out := &apiv1.WhyResponse{}
	key := keyOf(req.GetKey())
	out.Beside = s.beside(ctx, key)
	return out, s.read(ctx, func(c *peer.Core) *api.Error {
		seen, ok := c.See(key)
		if !ok {
			return noSuch(c, key)
		}
		out.View = view(c)
		out.Verdict = string(seen.Eval.Verdict)
		out.Beside = append(out.Beside, conflictFaults(key, objectTo(seen).GetConflicts())...)
		chain := chainOf(c, seen)
		if s.stuck(c, seen, chain, out) {
			return nil
		}
		for _, l := range chain {
			out.Chain = append(out.Chain, &apiv1.WhyLink{Step: stepTo(l.of.Graph, l.StepState), Relation: l.Why})
		}
		if len(chain) == 0 {
			out.Sentence = fmt.Sprintf("%s is %s", key, reached(seen))
			if machine := machineOf(seen); machine != "" {
				out.Sentence += " on " + machine
			}
			if other, how := c.BoundDown(key); other != "" {
				out.Sentence += fmt.Sprintf("; it is bound to %s, which %s", other, how)
			}
			more, fix := ended(seen)
			out.Sentence, out.Fix = out.Sentence+more, fix
			return nil
		}
		out.Sentence, out.Fix = causeOf(c, seen, chain)
		return nil
	})
}

func machineOf(s peer.Seen) string {
	if s.Object.Key.Kind == "Machine" {
		return s.Object.Key.Name
	}
	return s.Object.Status().String("status.machine")
}

// cause says in one sentence what holds an object up, and what to do about it.
func cause(c *peer.Core, s peer.Seen, st lifecycle.StepState) (sentence, fix string) {
	key := s.Object.Key
	_, member := c.IDOf(key.Name)
	switch {
	case key.Kind == "Machine" && !member:
		return fmt.Sprintf("%s was removed from the cluster; this is what is left of it", key), fmt.Sprintf("Take it away with `peer delete %s`.", key)
	case s.Eval.Silent != "":
		return silent(c, s)
	case st.State == lifecycle.StateRetrying:
		sentence = fmt.Sprintf("%s: %s on %s: %s; it is tried again %s", key, st.Step, st.Machine, st.Message, in(st.Until))
		if n := st.Result.Failures; n > 0 {
			sentence += fmt.Sprintf(" (failure %d in a row)", n)
		}
		return sentence, remedy(st.Code)
	case st.State == lifecycle.StateBlocked && st.Code == api.NoMachineFits:
		return fmt.Sprintf("%s: %s: %s", key, st.Step, st.Message), makeRoom(s.Object.Status())
	case st.State == lifecycle.StateBlocked:
		return fmt.Sprintf("%s: %s: %s", key, st.Step, st.Message), remedy(st.Code)
	case st.State == lifecycle.StateRunning && st.Message != "":
		return fmt.Sprintf("%s: %s: %s; it waits for %s, until %s", key, st.Step, st.Message, ago(st.Since), clock(st.Until)), ""
	case st.State == lifecycle.StateRunning:
		return running(c, s, st)
	case st.State == lifecycle.StateUndoing:
		return undoing(c, s, st)
	}
	if machine, ok := strings.CutPrefix(st.For, "machine/"); ok {
		return waitsForMachine(c, key, st, machine)
	}
	return fmt.Sprintf("%s: %s is about to run on %s", key, st.Step, st.Machine), ""
}

func silent(c *peer.Core, s peer.Seen) (sentence, fix string) {
	yes, of := c.Votes(s.Eval.Silent)
	sentence = fmt.Sprintf("%s is on machine %s, which has been silent for %s, as seen from %s", s.Object.Key, s.Eval.Silent, ago(s.Eval.SilentSince), c.Self().Name)
	if s.Object.Key.Kind == "Machine" {
		sentence = fmt.Sprintf("%s has been silent for %s, as seen from %s", s.Object.Key, ago(s.Eval.SilentSince), c.Self().Name)
	}
	if s.Object.Key.Kind != "Pod" {
		return sentence, remedy(api.MachineSilent)
	}
	grace := s.Object.Fields.Duration("spec.grace")
	switch {
	case s.Object.Fields.String("spec.partition") == api.PartitionPinned:
		return sentence + "; it is pinned, so it waits for its machine", "Bring the machine back. If it is lost for good, `peer machine remove " + s.Eval.Silent + "` takes it out, and its pods run elsewhere, without what only its disk held."
	case time.Since(s.Eval.SilentSince) < grace:
		return sentence + fmt.Sprintf("; it is replaced when that lasts %s and a majority of the voters find the same", grace), remedy(api.MachineSilent)
	case yes <= of/2:
		return sentence + fmt.Sprintf("; only %d of %d voters say so, and moving its pods takes a majority", yes, of), remedy(api.NoMajority)
	}
	if s.Object.Fields.String("spec.partition") == api.PartitionLeased {
		return sentence + "; it runs elsewhere as soon as its lease there is over", ""
	}
	return sentence + "; it is being replaced", ""
}

// running tells how long a step has been at work, and how long it usually is: that tells
// one that hangs from one that is only slow.
func running(c *peer.Core, s peer.Seen, st lifecycle.StepState) (sentence, fix string) {
	sentence = fmt.Sprintf("%s: %s has been running on %s for %s, and may take until %s", s.Object.Key, st.Step, st.Machine, ago(st.Since), clock(st.Until))
	switch usual := c.Timing(s.Object.Key.Kind, st.Step); {
	case usual.Runs == usual.Failures:
		sentence += "; it has not succeeded anywhere lately"
	default:
		sentence += fmt.Sprintf("; lately it took %s (the median of %d runs)", took(usual.Worked.P50), usual.Runs)
	}
	if loop := foreignLoop(st.Step); loop != "" {
		fix = fmt.Sprintf("Look after the program of loop %s on %s and what it waits for, or pass the step over with %s.", loop, st.Machine, skip(s, st))
	}
	return sentence, fix
}

// skip is the command that passes a step over.
func skip(s peer.Seen, st lifecycle.StepState) string {
	return fmt.Sprintf("`peer switch %s %s --skip %s`", s.Object.Key, s.Eval.Goal, st.Step)
}

// foreignLoop is the loop of a step, if its program is not the peer itself.
func foreignLoop(step string) string {
	loop, _, foreign := strings.Cut(step, ":")
	if !foreign {
		return ""
	}
	return loop
}

// undoing names the step that an object on its way down waits for, and its deadline.
func undoing(c *peer.Core, s peer.Seen, st lifecycle.StepState) (sentence, fix string) {
	key := s.Object.Key
	pass := fmt.Sprintf("Mend what holds it up, or pass the step over with %s.", skip(s, st))
	switch {
	case st.Code == api.MachineSilent:
		return fmt.Sprintf("%s: %s has to be taken down on %s, which has been silent for %s", key, st.Step, st.Machine, ago(st.Since)), fmt.Sprintf(
			"Look after the machine: it does that when it is back. If it is gone for good, take it out with `peer machine remove %s`.", st.Machine)
	case st.Message != "":
		return fmt.Sprintf("%s: taking %s down on %s failed: %s; it is tried again %s", key, st.Step, st.Machine, st.Message, in(st.Until)), pass
	case !st.Until.IsZero():
		return fmt.Sprintf("%s: %s has been taken down on %s for %s so far, and that may take until %s", key, st.Step, st.Machine, ago(st.Since), clock(st.Until)), pass
	}
	return fmt.Sprintf("%s: %s is being taken down on %s, for %s so far", key, st.Step, st.Machine, ago(c.Changed(key))), pass
}

func waitsForMachine(c *peer.Core, key api.Key, st lifecycle.StepState, machine string) (sentence, fix string) {
	if st.Code == api.MachineSilent {
		return fmt.Sprintf("%s: %s has to run on %s, which has been silent for %s, as seen from %s", key, st.Step, machine, ago(st.Since), c.Self().Name), remedy(st.Code)
	}
	if st.Message != "" {
		return fmt.Sprintf("%s: %s waits for %s, which still holds it: %s", key, st.Step, machine, st.Message), ""
	}
	return dueOn(c, key, st, machine)
}

// tardy is how long a machine may take to begin a step that is due there: longer than a
// turn of its loop and the way of its result.
const tardy = 2 * time.Second

// dueOn says whom a step waits for that is due on a machine. One that does not begin it is
// named, with what is known of it, before gossip finds it silent.
func dueOn(c *peer.Core, key api.Key, st lifecycle.StepState, machine string) (sentence, fix string) {
	if by, ok := c.ClockAhead(machine); ok {
		return fmt.Sprintf("%s: %s is to run on %s, and %s", key, st.Step, machine, skewed(c, machine, by)), remedy(api.ClockSkew)
	}
	due, heard := c.Changed(key), c.Heard(machine)
	if due.IsZero() || time.Since(due) < tardy || time.Since(heard) < tardy {
		return fmt.Sprintf("%s: %s is about to run on %s", key, st.Step, machine), ""
	}
	sentence = fmt.Sprintf("%s: %s has been due on %s for %s, and %s has heard nothing of %s for %s", key, st.Step, machine, ago(due), c.Self().Name, machine, ago(heard))
	if st.Machine == machine && machine != machineOfKey(c, key) {
		return sentence + "; another machine takes it over when that one is found silent", remedy(api.MachineSilent)
	}
	return sentence, remedy(api.MachineSilent)
}

// machineOfKey is the machine that the object is placed on.
func machineOfKey(c *peer.Core, key api.Key) string {
	seen, ok := c.See(key)
	if !ok {
		return ""
	}
	return machineOf(seen)
}

func skewed(c *peer.Core, machine string, by time.Duration) string {
	return fmt.Sprintf("the clock of %s runs %s ahead of that of %s, so that nothing %s writes is taken here", machine, by.Round(time.Second), c.Self().Name, machine)
}

// stuck tells what keeps a whole machine from taking part, where that is what an object
// waits for: this machine's disk takes nothing more, or another's clock runs ahead.
func (s *Server) stuck(c *peer.Core, seen peer.Seen, chain []causeLink, out *apiv1.WhyResponse) bool {
	key := seen.Object.Key
	if err := s.cfg.Loop.Unsaved(); err != nil && (len(chain) > 0 || key == (api.Key{Kind: "Machine", Name: c.Self().Name})) {
		out.Verdict = string(lifecycle.Blocked)
		out.Sentence, out.Fix = fmt.Sprintf("%s: %s can't write: %v", key, c.Self().Name, err), remedy(api.CodeOf(err))
		return true
	}
	if by, ok := c.ClockAhead(key.Name); ok && key.Kind == "Machine" {
		out.Verdict = string(lifecycle.Blocked)
		out.Sentence, out.Fix = fmt.Sprintf("%s: %s", key, skewed(c, key.Name, by)), remedy(api.ClockSkew)
		return true
	}
	return false
}

func remedy(code string) string {
	if doc, ok := api.CodeByName(code); ok {
		return doc.Do
	}
	return ""
}

func ago(t time.Time) string { return time.Since(t).Round(100 * time.Millisecond).String() }

func took(d time.Duration) string { return d.Round(time.Millisecond).String() }

func in(t time.Time) string {
	if d := time.Until(t).Round(100 * time.Millisecond); d > 0 {
		return "in " + d.String()
	}
	return "now"
}

func clock(t time.Time) string { return t.Local().Format(time.TimeOnly) }
