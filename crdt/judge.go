package crdt

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNotYet is what Config.Permits wraps when the authorisation heads that a change
// names have not arrived: the change waits, and [State.Retry] judges it again.
var ErrNotYet = errors.New("the authorisation it was written under has not arrived")

const (
	userPrefix = "user:"
	loopPrefix = "loop:"
	specPrefix = "spec."
	lifePrefix = "lifecycle."
)

// Config says by which rules a [State] judges changes. All functions must be pure:
// every replica must come to the same verdict.
type Config struct {
	// Level is the cluster's level. Changes of a higher one wait.
	Level uint32
	// Owner returns the loop that owns a field, "" for people. Required.
	Owner func(kind, path string) string
	// StepOwner returns the loop that a step belongs to, "" if the step is unknown.
	// Required.
	StepOwner func(kind, step string) string
	// SpecOwner returns the loop that owns the spec of an object which creator (an
	// author) made, "" for people: a parent's loop owns its children's specs. It is
	// asked where Owner says people. Optional: people own every such spec.
	SpecOwner func(kind, creator string) string
	// Parent is what Owner returns for a field that belongs to whichever loop owns the
	// object's spec, and to nobody where people do. Optional.
	Parent string
	// Permits judges authorisation: nil, an error that wraps ErrNotYet, or the reason
	// of the refusal. Optional: everyone may do everything that they own.
	Permits func(Change) error
	// MaxWaiting is how many changes may wait for others before Admits refuses more.
	// 0 means 65,536.
	MaxWaiting int
	// Open is how many objects are kept ready for reading and writing; the others are
	// packed, which takes a fraction of the memory. 0 means 1,024.
	Open int
}

const defaultMaxWaiting = 1 << 16

func (c Config) validate() error {
	if c.Owner == nil || c.StepOwner == nil {
		return errors.New("configure state: Owner and StepOwner are required")
	}
	if c.MaxWaiting < 0 || c.Open < 0 {
		return errors.New("configure state: MaxWaiting or Open is negative")
	}
	return nil
}

// shape is what a change does, whoever wrote it.
type shape struct {
	creates, deletes, spec, life, result bool
	malformed                            string
}

func shapeOf(c *Change) shape {
	var s shape
	for i := range c.Ops {
		if why := s.take(&c.Ops[i]); why != "" {
			return shape{malformed: why}
		}
	}
	s.malformed = s.inconsistent(c)
	return s
}

func (s *shape) take(o *Op) string {
	switch o.Kind {
	case OpCreate:
		s.creates = true
	case OpDelete:
		s.deletes = true
	case OpResult:
		s.result = true
		return malformedResult(o)
	case OpSet, OpUnset:
		if o.Kind == OpSet && o.Value == "" {
			return fmt.Sprintf("it sets %s to nothing", o.Path)
		}
		return s.field(o.Path)
	default:
		return fmt.Sprintf("operation %d is unknown at its level", o.Kind)
	}
	return ""
}

func (s *shape) field(path string) string {
	switch {
	case strings.HasPrefix(path, specPrefix):
		s.spec = true
	case strings.HasPrefix(path, lifePrefix):
		s.life = true
	default:
		return fmt.Sprintf("%q is neither in spec nor in lifecycle", path)
	}
	return ""
}

func malformedResult(o *Op) string {
	if o.Register == nil || o.Register.Phase < PhaseStarted || o.Register.Phase > PhaseUndone {
		return fmt.Sprintf("the result of step %s has no known phase", o.Path)
	}
	for path := range o.Register.Outputs {
		if !strings.HasPrefix(path, "status.") {
			return fmt.Sprintf("step %s writes %q, which is not in status", o.Path, path)
		}
	}
	return ""
}

func (s *shape) inconsistent(c *Change) string {
	switch {
	case len(c.Ops) == 0:
		return "it does nothing"
	case !isPerson(c.Author) && loopName(c.Author) == "":
		return fmt.Sprintf("author %q is neither a user nor a loop", c.Author)
	case s.creates != c.Incarnation.IsZero():
		return "it must either create an incarnation or name one"
	case s.creates && (s.deletes || len(c.Parents) > 0):
		return "a creation has no parents and deletes nothing"
	case s.result && (s.creates || s.deletes || s.spec || s.life || len(c.Parents) > 0):
		return "a result stands alone and has no parents"
	case !s.result && !s.creates && len(c.Parents) == 0:
		return "it names no parents"
	}
	return ""
}

func isPerson(author string) bool {
	return len(author) > len(userPrefix) && strings.HasPrefix(author, userPrefix)
}

// loopName returns NAME of "loop:NAME", "" for other authors.
func loopName(author string) string {
	name, ok := strings.CutPrefix(author, loopPrefix)
	if !ok {
		return ""
	}
	return name
}

// isOwner reports whether author is the owner: a loop's name, or "" for people.
func isOwner(author, owner string) bool {
	if owner == "" {
		return isPerson(author)
	}
	return loopName(author) == owner
}

func ownerName(owner string) string {
	if owner == "" {
		return "people"
	}
	return loopPrefix + owner
}

func (s *State) specOwner(kind, creator string) string {
	if s.cfg.SpecOwner == nil {
		return ""
	}
	return s.cfg.SpecOwner(kind, creator)
}

// trespass says which operation is not its author's to make, "" if all are.
// creator is the author of the object's creation.
func (s *State) trespass(c *Change, creator string) string {
	for i := range c.Ops {
		if why := s.trespassOp(c, &c.Ops[i], creator); why != "" {
			return why
		}
	}
	return ""
}

func (s *State) trespassOp(c *Change, o *Op, creator string) string {
	kind := c.Object.Kind
	switch o.Kind {
	case OpSet, OpUnset:
		owner := s.cfg.Owner(kind, o.Path)
		switch {
		case owner == "" && strings.HasPrefix(o.Path, specPrefix):
			owner = s.specOwner(kind, creator)
		case owner != "" && owner == s.cfg.Parent:
			if owner = s.specOwner(kind, creator); owner == "" {
				return fmt.Sprintf("%s is written by the loop that makes an object, and no loop made this one", o.Path)
			}
		}
		if !isOwner(c.Author, owner) {
			return fmt.Sprintf("%s belongs to %s, not to %s", o.Path, ownerName(owner), c.Author)
		}
	case OpDelete:
		if owner := s.specOwner(kind, creator); !isOwner(c.Author, owner) {
			return fmt.Sprintf("%s may delete it, not %s", ownerName(owner), c.Author)
		}
	case OpResult:
		return s.trespassResult(c, o)
	}
	return ""
}

func (s *State) trespassResult(c *Change, o *Op) string {
	loop := loopName(c.Author)
	owner := s.cfg.StepOwner(c.Object.Kind, o.Path)
	if loop == "" || owner != loop {
		return fmt.Sprintf("step %s belongs to %s, not to %s", o.Path, stepOwnerName(owner), c.Author)
	}
	var worst string // the least path, since the order of a map must not show
	for path := range o.Register.Outputs {
		if s.cfg.Owner(c.Object.Kind, path) != loop && (worst == "" || path < worst) {
			worst = path
		}
	}
	if worst != "" {
		return fmt.Sprintf("%s belongs to %s, not to %s", worst, ownerName(s.cfg.Owner(c.Object.Kind, worst)), c.Author)
	}
	return ""
}

func stepOwnerName(owner string) string {
	if owner == "" {
		return "no loop"
	}
	return loopPrefix + owner
}
