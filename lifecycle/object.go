package lifecycle

import (
	"time"

	"starling.dev/starling/api"
)

// Object is what the engine sees of an object: an immutable snapshot.
type Object struct {
	Key api.Key
	// ID is the object's identity (its incarnation) in hex.
	ID  string
	Rev uint64
	// Fields holds every field below "spec." and "lifecycle.", defaults filled in.
	Fields api.Fields
	// Left holds, by step, the fields as the authors that the step listens to left them, for
	// steps that select authors; none where no such author ever edited the object.
	Left map[string]api.Fields
	// Derived holds what the kind computes from other objects, for steps to read.
	Derived api.Fields
	// Results holds each step's register by the step's name.
	Results map[string]Result
	// Deleted objects are on their way to the target "deleted".
	Deleted bool
}

// Phase is how far a step's attempt has come.
type Phase uint8

// The phases of an attempt. The numbers are those of crdt.Phase.
const (
	PhaseNever   Phase = 0
	PhaseStarted Phase = 1
	PhaseDone    Phase = 2
	PhaseFailed  Phase = 3
	PhaseUndone  Phase = 4
)

// Result is a step's register as the engine reads it.
type Result struct {
	Attempt                          uint64
	Phase                            Phase
	Reads                            [32]byte // hash of the reads it ran with
	Executor                         string   // name of the machine that ran it
	Queued, Ready, Started, Finished time.Time
	Outputs                          Outputs
	Code, Message                    string
	Failures                         int
	RetryAt                          time.Time // zero: when something it consults changes
}

// Status merges the outputs of all steps: the object's fields below "status.".
// Each belongs to one step, so that nothing is overwritten.
func (o *Object) Status() api.Fields {
	all := api.Fields{}
	for _, r := range o.Results {
		for path, v := range r.Outputs {
			all[path] = v
		}
	}
	return all
}

// Select returns those of the named fields that there are.
func (o *Object) Select(paths ...string) api.Fields {
	some := make(api.Fields, len(paths))
	for _, path := range paths {
		if v, ok := o.Field(path); ok {
			some[path] = v
		}
	}
	return some
}

// Field returns a field of the spec, the lifecycle or the status, as canonical JSON.
func (o *Object) Field(path string) (string, bool) {
	if !api.Below(path, "status") {
		v, ok := o.Fields[path]
		if !ok {
			v, ok = o.Derived[path]
		}
		return v, ok
	}
	for _, r := range o.Results {
		if v, ok := r.Outputs[path]; ok {
			return v, true
		}
	}
	return "", false
}
