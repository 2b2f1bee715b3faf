package loops

import (
	"fmt"
	"slices"
	"strings"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// Health is what this machine's probes last reported of one run of a container.
type Health struct {
	// Generation names the run, as [Generation] does.
	Generation string
	Report
}

// Prober is the part of the core's view that holds what probes report. It is local to
// the machine and never replicated: only what the step ready makes of it is.
type Prober interface {
	// Health returns the last report on a container of the object with this identity.
	Health(id, container string) (Health, bool)
}

// Generation names one run of a container: each start is another.
func Generation(status api.Fields, container string) string {
	at := api.Child("status.containers", container)
	return fmt.Sprintf("%s %d", status.String(at+".id"), status.Int(at+".pid"))
}

// gates are the probes that a pod's readiness depends on.
var gates = []string{api.ProbeStartup, api.ProbeReadiness}

// deriveProbed adds, below "probed.", the run of each container that readiness is
// asked of: when it starts anew, the step ready has to be run again.
func deriveProbed(o *lifecycle.Object, fields api.Fields) {
	if !gated(o.Fields) {
		return
	}
	var status api.Fields
	for _, container := range o.Fields.Keys("spec.containers") {
		probes := o.Fields.Keys(api.Child("spec.containers", container) + ".probes")
		if !slices.ContainsFunc(probes, func(p string) bool { return slices.Contains(gates, p) }) {
			continue
		}
		if status == nil {
			status = o.Status()
		}
		fields[api.Child("probed", container)] = api.Str(Generation(status, container))
	}
}

// gated tells at once the many pods whose readiness depends on no probe.
func gated(f api.Fields) bool {
	for path := range f {
		if _, probe, ok := strings.Cut(path, ".probes."); ok && slices.ContainsFunc(gates, func(gate string) bool { return strings.HasPrefix(probe, gate) }) {
			return true
		}
	}
	return false
}

// mentions tells at once the many pods without any host port.
func mentions(f api.Fields, part string) bool {
	for path := range f {
		if strings.Contains(path, part) {
			return true
		}
	}
	return false
}

// ready decides whether a pod can do its work: when it runs, and every container's
// startup and readiness probes pass. An older run's answers don't count.
func ready(v lifecycle.View, in lifecycle.Inputs) (lifecycle.Outputs, error) {
	if !in.Fields.Bool("status.running") {
		return lifecycle.Outputs{"status.ready": "false"}, nil
	}
	prober, _ := v.(Prober)
	var waits []string
	for _, container := range in.Fields.Keys("probed") {
		health, known := Health{}, false
		if prober != nil {
			health, known = prober.Health(in.ID, container)
		}
		switch {
		case !known || health.Generation != in.Fields.String(api.Child("probed", container)):
			waits = append(waits, container)
		case !health.Ready:
			return nil, &lifecycle.Error{Code: health.Code, Message: health.Message, Wait: true, Outputs: lifecycle.Outputs{"status.ready": "false"}}
		}
	}
	if len(waits) > 0 {
		return lifecycle.Outputs{"status.ready": "false"}, &lifecycle.Pending{
			Message: fmt.Sprintf("the probes of container %s have not passed yet", strings.Join(waits, ", ")),
		}
	}
	return lifecycle.Outputs{"status.ready": "true"}, nil
}
