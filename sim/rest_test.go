package sim

import (
	"testing"

	"starling.dev/starling/peer"
)

// Nothing depends on which objects a peer has at hand: with one at a time, every seed
// gives the trace that it gives otherwise.
func TestObjectsAtRest(t *testing.T) {
	few := hooks{config: func(_ *machine, cfg *peer.Config, _ *peer.Recovery) { cfg.Warm = 1 }}
	for seed := uint64(1); seed <= 6; seed++ {
		want, err := Run(short(seed))
		report(t, err)
		got, err := run(short(seed), few)
		report(t, err)
		if got.TraceHash != want.TraceHash {
			t.Errorf("seed %d: trace %s, and with one object at hand %s", seed, want.TraceHash, got.TraceHash)
		}
	}
}
