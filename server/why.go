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
	return out, s.read(ctx, func(c *peer.Core) *api.Error {
		seen, ok := c.See(key)
		if !ok {
			return noSuch(key)
		}
		out.View = view(c)
		out.Verdict = string(seen.Eval.Verdict)
		chain := chainOf(c, seen)
		for _, l := range chain {
			out.Chain = append(out.Chain, &apiv1.WhyLink{Step: stepTo(l.of.Graph, l.StepState), Relation: l.Why})
		}
		if len(chain) == 0 {
			out.Sentence = fmt.Sprintf("%s is %s", key, reached(seen))
			if machine := machineOf(seen); machine != "" {
				out.Sentence += " on " + machine
			}
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
	switch {
	case s.Eval.Silent != "":
		return silent(c, s)
	case st.State == lifecycle.StateRetrying:
		return fmt.Sprintf("%s: %s on %s: %s; it is tried again %s (failure %d in a row)",
			key, st.Step, st.Machine, st.Message, in(st.Until), st.Result.Failures), remedy(st.Code)
	case st.State == lifecycle.StateBlocked:
		return fmt.Sprintf("%s: %s: %s", key, st.Step, st.Message), remedy(st.Code)
	case st.State == lifecycle.StateRunning && st.Message != "":
		return fmt.Sprintf("%s: %s: %s; it waits for %s, until %s", key, st.Step, st.Message, ago(st.Since), clock(st.Until)), ""
	case st.State == lifecycle.StateRunning:
		return fmt.Sprintf("%s: %s has been running on %s for %s, and may take until %s", key, st.Step, st.Machine, ago(st.Since), clock(st.Until)), ""
	case st.State == lifecycle.StateUndoing:
		return undoing(key, st), remedy(st.Code)
	}
	if machine, ok := strings.CutPrefix(st.For, "machine/"); ok {
		return waitsForMachine(c, key, st, machine)
	}
	return fmt.Sprintf("%s: %s is about to run on %s", key, st.Step, st.Machine), ""
}

func silent(c *peer.Core, s peer.Seen) (sentence, fix string) {
	yes, of := c.Votes(s.Eval.Silent)
	sentence = fmt.Sprintf("%s is on machine %s, which has been silent for %s, as seen from %s", s.Object.Key, s.Eval.Silent, ago(s.Eval.SilentSince), c.Self().Name)
	if s.Object.Key.Kind != "Pod" {
		return sentence, remedy(api.MachineSilent)
	}
	grace := s.Object.Fields.Duration("spec.grace")
	switch {
	case s.Object.Fields.String("spec.partition") != api.PartitionReplace:
		return sentence + "; it is pinned, so it waits for its machine", "Bring the machine back, or run `peer machine evict " + s.Eval.Silent + "`."
	case time.Since(s.Eval.SilentSince) < grace:
		return sentence + fmt.Sprintf("; it is replaced when that lasts %s and a majority of the voters find the same", grace), remedy(api.MachineSilent)
	case yes <= of/2:
		return sentence + fmt.Sprintf("; only %d of %d voters say so, and moving its pods takes a majority", yes, of), remedy(api.NoMajority)
	}
	return sentence + "; it is being replaced", ""
}

func undoing(key api.Key, st lifecycle.StepState) string {
	switch {
	case st.Code == api.MachineSilent:
		return fmt.Sprintf("%s: %s has to be taken down on %s, which has been silent for %s", key, st.Step, st.Machine, ago(st.Since))
	case st.Message != "":
		return fmt.Sprintf("%s: taking %s down on %s failed: %s; it is tried again %s", key, st.Step, st.Machine, st.Message, in(st.Until))
	}
	return fmt.Sprintf("%s: %s is being taken down on %s", key, st.Step, st.Machine)
}

func waitsForMachine(c *peer.Core, key api.Key, st lifecycle.StepState, machine string) (sentence, fix string) {
	if st.Code == api.MachineSilent {
		return fmt.Sprintf("%s: %s has to run on %s, which has been silent for %s, as seen from %s", key, st.Step, machine, ago(st.Since), c.Self().Name), remedy(st.Code)
	}
	if st.Message != "" {
		return fmt.Sprintf("%s: %s waits for %s, which still holds it: %s", key, st.Step, machine, st.Message), ""
	}
	return fmt.Sprintf("%s: %s is about to run on %s", key, st.Step, machine), ""
}

func remedy(code string) string {
	if doc, ok := api.CodeByName(code); ok {
		return doc.Do
	}
	return ""
}

func ago(t time.Time) string { return time.Since(t).Round(100 * time.Millisecond).String() }

func in(t time.Time) string {
	if d := time.Until(t).Round(100 * time.Millisecond); d > 0 {
		return "in " + d.String()
	}
	return "now"
}

func clock(t time.Time) string { return t.Local().Format(time.TimeOnly) }
