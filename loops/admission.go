package loops

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/sched"
)

// Admission is the machine's final word: it admits a pod against its own real
// reservations, or refuses it with the numbers, which is fed back to the scheduler.
func Admission() lifecycle.Loop {
	return lifecycle.Loop{
		Name: api.LoopAdmission,
		Kind: "Pod",
		Steps: []lifecycle.Step{{
			Name:     "admit",
			Requires: []string{"schedule"},
			Where:    lifecycle.OnMachine,
			Reads:    []string{"status.machine", "spec.containers.*.resources", "spec.containers.*.hostPorts", "machine.capacity", "machine.listening"},
			Consults: []string{"Pod", "Machine"},
			Outputs:  []string{"status.admission", "status.refusals"},
			Reserves: true,
			Timeout:  5 * time.Second,
			Decide:   admit,
		}},
	}
}

func admit(v lifecycle.View, in lifecycle.Inputs) (lifecycle.Outputs, error) {
	need := PodReservation(in.Fields)
	all := lifecycle.Reservation{CPU: in.Fields.CPU("machine.capacity.cpu"), Memory: in.Fields.Bytes("machine.capacity.memory")}
	held := v.Held(in.ID)
	free := all.Sub(held)
	refusals := currentRefusals(in)
	short := sched.Short(need.CPU, need.Memory, free.CPU, free.Memory, all.CPU, all.Memory)
	if short == "" {
		short = sched.Taken(hostNumbers(in.Fields), portHolders(v, in.Machine, in.Key, hostNumbers(in.Fields), held.Ports, in.Fields.Sub("machine.listening")))
	}
	if short != "" {
		r := refusal{rev: in.Rev, at: v.Now(), reason: "refused: " + short}
		refusals[api.Join("status", "refusals", in.Machine)] = api.Str(r.String())
		return nil, &lifecycle.Error{Code: api.Refused, Message: in.Machine + " " + r.reason, Wait: true, Outputs: refusals}
	}
	delete(refusals, api.Join("status", "refusals", in.Machine))
	out := refusals
	out["status.admission.machine"] = api.Str(in.Machine)
	out["status.admission.cpu"] = api.CPU(need.CPU)
	out["status.admission.memory"] = api.Bytes(need.Memory)
	return out, nil
}

// currentRefusals keeps what other machines refused in this generation, so that
// none is tried twice.
func currentRefusals(in lifecycle.Inputs) lifecycle.Outputs {
	kept := lifecycle.Outputs{}
	for path, value := range in.Previous {
		if r, ok := parseRefusal(in.Previous.String(path)); ok && api.Below(path, "status.refusals") && r.rev == in.Rev {
			kept[path] = value
		}
	}
	return kept
}

// refusalTTL is how long a refusal keeps a machine from being chosen again for the
// same generation: long enough for the view that led to it to catch up.
const refusalTTL = 10 * time.Second

// refusal is one machine's no, as it stands in status.refusals.
type refusal struct {
	rev    uint64
	at     time.Time
	reason string
}

func (r refusal) String() string {
	return fmt.Sprintf("rev %d at %s: %s", r.rev, r.at.UTC().Format(time.RFC3339), r.reason)
}

func parseRefusal(s string) (r refusal, ok bool) {
	head, reason, found := strings.Cut(s, ": ")
	rev, at, cut := strings.Cut(strings.TrimPrefix(head, "rev "), " at ")
	if !found || !cut {
		return refusal{}, false
	}
	n, err := strconv.ParseUint(rev, 10, 64)
	if err != nil {
		return refusal{}, false
	}
	when, err := time.Parse(time.RFC3339, at)
	return refusal{rev: n, at: when, reason: reason}, err == nil
}
