package loops

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/sched"
)

// Scheduler decides which machine a pod belongs to.
func Scheduler() lifecycle.Loop {
	return lifecycle.Loop{
		Name: api.LoopScheduler,
		Kind: "Pod",
		Steps: []lifecycle.Step{{
			Name:  "schedule",
			Where: lifecycle.OnExecutor,
			Reads: []string{
				"spec.containers.*.resources", "spec.containers.*.hostPorts", "spec.require",
				"spec.parent", "status.refusals", "machine.standing",
			},
			Feedback: []string{"status.refusals"},
			Consults: []string{"Machine", "Pod", "members"},
			Outputs:  []string{"status.machine", "status.refused"},
			Timeout:  5 * time.Second,
			Decide:   schedule,
		}},
	}
}

// schedule places a pod. A pod that has a machine stays there as long as that
// machine can have it.
func schedule(v lifecycle.View, in lifecycle.Inputs) (lifecycle.Outputs, error) {
	need := needOf(v, in)
	machines := candidates(v, in.Key, need.Ports)
	p := sched.Place(need, machines)
	out := lifecycle.Outputs{}
	if p.Machine != "" {
		out["status.machine"] = api.Str(p.Machine)
		return out, nil
	}
	for _, r := range p.Refusals {
		out[api.Join("status", "refused", r.Machine)] = api.Str(r.Reason)
	}
	if stays := stays(in); stays != "" {
		out["status.machine"] = api.Str(stays)
	}
	code, message := verdict(need, machines, p.Refusals)
	return nil, &lifecycle.Error{Code: code, Message: message, Wait: true, Outputs: out}
}

// stays is the machine where a pod that fits nowhere goes on as it is: its own, unless that
// can't run it any more. On one that is drained it runs until another one has room.
func stays(in lifecycle.Inputs) string {
	if s := in.Fields.String("machine.standing"); s == StandingSilent || s == StandingRemoved {
		return ""
	}
	return in.Previous.String("status.machine")
}

func needOf(v lifecycle.View, in lifecycle.Inputs) sched.Need {
	r := PodReservation(in.Fields)
	need := sched.Need{
		ID: in.ID, CPU: r.CPU, Memory: r.Memory, Ports: hostNumbers(in.Fields),
		Require: map[string]string{}, Refused: map[string]string{},
		Previous: in.Previous.String("status.machine"),
	}
	if need.Parent = in.Fields.String("spec.parent.id"); need.Parent != "" {
		need.Slot = int(in.Fields.Int("spec.parent.slot"))
	}
	for _, k := range in.Fields.Keys("spec.require") {
		need.Require[k] = in.Fields.String(api.Child("spec.require", k))
	}
	for _, m := range in.Fields.Keys("status.refusals") {
		if r, ok := parseRefusal(in.Fields.String(api.Child("status.refusals", m))); ok && r.rev == in.Rev && v.Now().Sub(r.at) < refusalTTL && !portFreed(v, m, r.reason, need.Ports) {
			need.Refused[m] = r.reason
		}
	}
	if s := in.Fields.String("machine.standing"); s == StandingSilent || s == StandingRemoved || s == StandingDrained {
		need.Refused[need.Previous] = s
		need.Previous = ""
	}
	return need
}

// candidates describes every machine of the cluster as it is seen from here. One that
// was removed may have left its object behind.
func candidates(v lifecycle.View, pod api.Key, ports []uint16) []sched.Machine {
	var machines []sched.Machine
	siblings := v.Siblings(pod)
	for _, o := range v.Objects("Machine") {
		if v.Member(o.Key.Name).Removed {
			continue
		}
		used := v.Reserved(o.Key.Name, pod)
		status := o.Select("status.capacity.cpu", "status.capacity.memory", "status.ready")
		m := sched.Machine{
			Name: o.Key.Name, Labels: map[string]string{}, Standing: standingOf(v, o, status),
			CPU:    status.CPU("status.capacity.cpu") - o.Fields.CPU("spec.reserve.cpu"),
			Memory: status.Bytes("status.capacity.memory") - o.Fields.Bytes("spec.reserve.memory"),
			Pods:   v.Placed(o.Key.Name, pod), Siblings: siblings[o.Key.Name],
			UsedCPU: used.CPU, UsedMemory: used.Memory, Ports: portHolders(v, o.Key.Name, pod, ports, used.Ports, listening(o, ports)),
		}
		for _, k := range o.Fields.Keys("spec.labels") {
			m.Labels[k] = o.Fields.String(api.Child("spec.labels", k))
		}
		machines = append(machines, m)
	}
	return machines
}

func standingOf(v lifecycle.View, o *lifecycle.Object, status api.Fields) string {
	switch {
	case !v.Member(o.Key.Name).Alive:
		return "is silent"
	case o.Fields.String("lifecycle.target") == api.TargetDrained:
		return "is drained"
	case !status.Bool("status.ready"):
		return "is not ready"
	}
	return "ready"
}

// verdict finds the one sentence: what the pod needs, and why no machine has it.
func verdict(need sched.Need, machines []sched.Machine, refusals []sched.Refusal) (code, message string) {
	if len(machines) == 0 {
		return api.NoMachineFits, "there is no machine in the cluster yet"
	}
	for k, want := range sortedPairs(need.Require) {
		if slices.ContainsFunc(machines, func(m sched.Machine) bool { return m.Labels[k] == want }) {
			continue
		}
		return api.LabelMissing, missingLabel(k, want, machines)
	}
	var why []string
	for _, r := range refusals {
		why = append(why, r.Machine+" "+r.Reason)
	}
	return api.NoMachineFits, "no machine fits: " + strings.Join(why, "; ")
}

// missingLabel names the nearest label that exists.
func missingLabel(k, want string, machines []sched.Machine) string {
	var pairs []string
	for _, m := range machines {
		for name, value := range sortedPairs(m.Labels) {
			pairs = append(pairs, name+"="+value)
		}
	}
	slices.Sort(pairs)
	message := fmt.Sprintf("no machine has the label %s=%s", k, want)
	if near := api.Nearest(k+"="+want, slices.Compact(pairs)); near != "" {
		return fmt.Sprintf("%s; the nearest that exists is %s", message, near)
	}
	return fmt.Sprintf("%s; add it with `peer machine label NAME %s=%s`", message, k, want)
}
