package loops

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// Objects holds a pod's containers back until the other objects that it requires are up.
// It is judged at the start alone: what runs is not touched when a required object goes
// down. A pod that is bound to another object follows that one; see [Bound].
func Objects() lifecycle.Loop {
	return lifecycle.Loop{
		Name: api.LoopObjects,
		Kind: "Pod",
		Steps: []lifecycle.Step{{
			Name:       "objects",
			If:         []string{objectsRequire, objectsBind},
			RequiredBy: []string{"container"},
			Where:      lifecycle.OnExecutor,
			Reads:      []string{"spec.objects"},
			Consults:   []string{ConsultsObjects},
			Outputs:    []string{"status.objects"},
			Timeout:    5 * time.Second,
			Decide:     required,
		}},
	}
}

// ConsultsObjects stands among a step's consults for the objects that its object requires.
const ConsultsObjects = "objects"

const (
	objectsRequire = "spec.objects.require"
	objectsBind    = "spec.objects.bind"
	objectsWaits   = "status.objects.waits"
)

// Required lists the keys of the objects that an object requires, as written; those that
// it is bound to are required as well.
func Required(f api.Fields) []string {
	return append(slices.Clone(f.Strings(objectsBind)), f.Strings(objectsRequire)...)
}

// Bound lists the keys of the objects that an object starts and stops with.
func Bound(f api.Fields) []string { return f.Strings(objectsBind) }

// WaitsFor is the key of the object that the step objects waits for; "" if it does not.
func WaitsFor(status api.Fields) string { return status.String(objectsWaits) }

// Standing is how another object stands.
type Standing struct {
	Exists bool
	// Up: it has reached its goal, and that is not to be down.
	Up      bool
	Verdict lifecycle.State
	Goal    string
	// Requires are the objects that it requires itself.
	Requires []string
}

// Others is the part of the core's view that knows how other objects stand.
type Others interface {
	// Standing tells how an object stands, by its key as written in a spec.
	Standing(key string) Standing
	// Nearest returns the key that exists and resembles the given one most, or "". It is
	// never the excepted one.
	Nearest(key, except string) string
}

// required decides whether everything that the pod requires is up.
func required(v lifecycle.View, in lifecycle.Inputs) (lifecycle.Outputs, error) {
	others, ok := v.(Others)
	if !ok {
		return met, nil
	}
	for _, key := range Required(in.Fields) {
		s := others.Standing(key)
		if s.Up {
			continue
		}
		code, message := unmet(others, in.Key.String(), key, s)
		return nil, &lifecycle.Error{Code: code, Message: message, Wait: true, Outputs: lifecycle.Outputs{objectsWaits: api.Str(key)}}
	}
	return met, nil
}

// met is forgotten when the pod stops, so that each start is judged anew.
var met = lifecycle.Outputs{"status.objects.met": "true"}

func unmet(others Others, self, key string, s Standing) (code, message string) {
	if !s.Exists {
		message = fmt.Sprintf("it requires %s, which does not exist", key)
		if near := others.Nearest(key, self); near != "" {
			message += "; the nearest that exists is " + near
		}
		return api.ObjectMissing, message
	}
	if circle := circleOf(others, self, []string{self, key}); circle != nil {
		return api.RequirementCycle, strings.Join(circle, " requires ") + ": each waits for the next, so that none of them starts"
	}
	if s.Verdict == lifecycle.Converged {
		return api.ObjectNotUp, fmt.Sprintf("it requires %s, which is %s", key, s.Goal)
	}
	return api.ObjectNotUp, fmt.Sprintf("it requires %s, which is %s", key, s.Verdict)
}

// longestCircle bounds how far requirements are followed.
const longestCircle = 16

// circleOf follows requirements depth first, until they come back to where they began.
func circleOf(others Others, self string, path []string) []string {
	if len(path) > longestCircle {
		return nil
	}
	for _, next := range others.Standing(path[len(path)-1]).Requires {
		if next == self {
			return append(path, self)
		}
		if slices.Contains(path, next) {
			continue
		}
		if circle := circleOf(others, self, append(path[:len(path):len(path)], next)); circle != nil {
			return circle
		}
	}
	return nil
}
