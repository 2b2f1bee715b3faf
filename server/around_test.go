package server

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"starling.dev/starling/api/v1/apiv1connect"
)

// Every answer is taken in, one at a time, and who gave none is named.
func TestAskTakesEveryAnswer(t *testing.T) {
	o := others{}
	for _, name := range []string{"m1", "m2", "m3", "m4", "m5"} {
		o[name] = nil
	}
	var unreachable []string
	var asked atomic.Int32
	answers := 0 // the race detector watches that nobody counts at the same time
	o.ask(&unreachable, func(apiv1connect.StarlingClient) (func(), error) {
		if asked.Add(1) == 3 {
			return nil, errors.New("no answer")
		}
		return func() { answers++ }, nil
	})()
	if answers != 4 || len(unreachable) != 1 || !slices.Contains([]string{"m1", "m2", "m3", "m4", "m5"}, unreachable[0]) {
		t.Errorf("%d answers, unreachable %v", answers, unreachable)
	}
}
