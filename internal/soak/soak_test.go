package soak

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"starling.dev/starling/lab"
)

// TestKilledWriters: whoever was told that a write is done finds it after the peer was
// ended in the midst of writing.
func TestKilledWriters(t *testing.T) {
	f, random, n := need(t), draws(t), rounds(t, 6)
	var writers []*writer
	for m := 1; m <= machines; m++ {
		for i := range 2 {
			writers = append(writers, newWriter(t, f, m, i))
		}
	}
	for round := range n {
		victim := 1 + random.IntN(machines)
		var busy sync.WaitGroup
		for _, w := range writers {
			if w.machine == victim {
				busy.Go(func() { w.write(t.Context()) })
			}
		}
		pause(t, time.Duration(random.IntN(300))*time.Millisecond)
		if err := f.lab.KillPeer(victim); err != nil {
			t.Fatal(err)
		}
		busy.Wait()
		if err := f.run("lab", "start", "--name", labName, strconv.Itoa(victim)); err != nil {
			t.Fatal(err)
		}
		for _, w := range writers {
			if w.machine == victim {
				w.check(t, victim)
			}
		}
		if t.Failed() {
			t.Fatalf("in round %d, at %s", round+1, lab.Name(victim))
		}
		progress(t, round+1, n)
	}
	f.whole(t)
	for _, w := range writers {
		w.check(t, w.machine%machines+1)
	}
	report(t, n, writers)
}

// TestCutAndHealed: cut apart in some way or other while people write everywhere, and
// healed, the machines come to one state with all that was acknowledged in it.
func TestCutAndHealed(t *testing.T) {
	f, random, n := need(t), draws(t), rounds(t, 4)
	var writers []*writer
	for m := 1; m <= machines; m++ {
		writers = append(writers, newWriter(t, f, m, 0))
	}
	splits := [][][]int{{{1}, {2, 3}}, {{2}, {1, 3}}, {{3}, {1, 2}}, {{1}, {2}, {3}}}
	for round := range n {
		ctx, stop := context.WithCancel(t.Context())
		var busy sync.WaitGroup
		for _, w := range writers {
			busy.Go(func() { w.write(ctx) })
		}
		pause(t, time.Duration(random.IntN(200))*time.Millisecond)
		if err := f.lab.Partition(splits[random.IntN(len(splits))]); err != nil {
			t.Fatal(err)
		}
		pause(t, time.Duration(random.IntN(1500))*time.Millisecond)
		if err := f.lab.Heal(); err != nil {
			t.Fatal(err)
		}
		pause(t, time.Duration(random.IntN(200))*time.Millisecond)
		stop()
		busy.Wait()
		f.whole(t)
		for _, w := range writers {
			for m := 1; m <= machines; m++ {
				w.check(t, m)
			}
		}
		if t.Failed() {
			t.Fatalf("in round %d", round+1)
		}
		progress(t, round+1, n)
	}
	report(t, n, writers)
}

// progress is for whoever waits for a long run, or wonders how far it came.
func progress(t *testing.T, round, of int) {
	t.Helper()
	if round%25 == 0 && round < of {
		t.Logf("%d rounds of %d", round, of)
	}
}

// report says what a test did, for the record.
func report(t *testing.T, rounds int, writers []*writer) {
	t.Helper()
	writes, held := 0, 0
	for _, w := range writers {
		n, h := w.writes()
		writes, held = writes+n, held+h
	}
	if writes < rounds {
		t.Errorf("%d writes in %d rounds: nobody wrote while it mattered", writes, rounds)
	}
	t.Logf("%d rounds, %d writes, %d of them on a second disk when they were acknowledged", rounds, writes, held)
}
