package gossip

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"starling.dev/starling/crdt"
)

// A member whose peer does not answer is lost within seconds, and found with its first answer;
// one that is no longer watched is asked no more.
func TestWatcherLosesWhoDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id := crdt.MachineID{1}
		var mute atomic.Bool
		var asked, told atomic.Int64
		w := NewWatcher(func(ctx context.Context, _ crdt.MachineID) error {
			asked.Add(1)
			if !mute.Load() {
				return nil
			}
			wait, cancel := context.WithTimeout(ctx, LAN().ProbeTimeout)
			defer cancel()
			<-wait.Done()
			return errors.New("no answer")
		}, func() { told.Add(1) })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		after := func(d time.Duration, lost bool, news int64) {
			t.Helper()
			<-time.After(d)
			synctest.Wait()
			if w.Lost(id) != lost || told.Load() != news {
				t.Fatalf("lost: %v, told %d times; want %v, %d", w.Lost(id), told.Load(), lost, news)
			}
		}
		w.Watch([]crdt.MachineID{id})
		after(time.Minute, false, 0)
		mute.Store(true)
		after(1500*time.Millisecond, false, 0) // a few lost packets are nothing
		mute.Store(false)
		after(time.Second, false, 0)
		mute.Store(true)
		after(2600*time.Millisecond, true, 1)
		after(time.Minute, true, 1)
		mute.Store(false)
		after(watchEvery, false, 2)
		w.Watch(nil)
		before := asked.Load()
		after(time.Minute, false, 2)
		if asked.Load() != before {
			t.Error("a member that nobody watches is asked")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Probe tells a peer that runs from one that does not, whatever membership believes so far.
func TestProbe(t *testing.T) {
	nodes := startNodes(t, 2, nil)
	other := nodes[1].self.ID
	if err := nodes[0].Probe(t.Context(), other); err != nil {
		t.Errorf("a peer that runs: %v", err)
	}
	nodes[1].stop()
	if err := nodes[0].Probe(t.Context(), other); err == nil {
		t.Error("a peer that has ended answers")
	}
}
