package daemon

import (
	"errors"
	"testing"

	"starling.dev/starling/identity"
)

// The error that says that starting again is in vain is that of a machine whose pods have ended.
func TestRetired(t *testing.T) {
	why, ok := removal(removedError(identity.Machine{Name: "m4", Reason: "sold"}))
	if !ok {
		t.Fatal("the error of a removed machine is not told apart")
	}
	if _, vain := removal(retired(why, nil)); !vain {
		t.Error("a machine whose pods have ended would be started again")
	}
	failed := errors.New("containerd does not answer")
	err := retired(why, failed)
	if _, vain := removal(err); vain || !errors.Is(err, failed) {
		t.Errorf("a machine with pods would not be started again, or it is not said why: %v", err)
	}
}
