package daemon

import (
	"testing"
	"time"

	"starling.dev/starling/crdt"
)

// A peer that has just begun takes nobody for silent whom it has not heard yet, for a while; who
// was heard and is gone is silent at once.
func TestWhoIsSilentToAPeerThatHasJustBegun(t *testing.T) {
	b := beginning{at: time.Now(), heard: map[crdt.MachineID]bool{}}
	one, two := crdt.MachineID{1}, crdt.MachineID{2}
	if b.silent(one, true) || b.waits {
		t.Error("a machine that is alive is silent, or waited for")
	}
	if b.silent(two, false) || !b.waits {
		t.Error("a machine that was not heard yet is silent, or not waited for")
	}
	if !b.silent(one, false) {
		t.Error("a machine that was heard and is gone is not silent")
	}
	b.at = b.at.Add(-2 * settleTime)
	if !b.silent(two, false) {
		t.Error("a machine that was never heard is not silent in the end")
	}
}
