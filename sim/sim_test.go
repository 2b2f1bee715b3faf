package sim

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// short is the simulation that the tests repeat with many seeds.
func short(seed uint64) Config {
	return Config{Seed: seed, Peers: 3 + int(seed%5), Duration: 30 * time.Second}
}

// workers is how many seeds run at a time.
const workers = 2

// number reads a setting of the test from the environment.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		t.Fatalf("%s=%q is no number", name, text)
	}
	return n
}

// TestShortSeeds runs many short seeds, each twice for one and the same trace, and proves
// that they reached each fault and each way back from it: SEEDS of them from FIRST on.
func TestShortSeeds(t *testing.T) {
	total, first, n := newFigures(), number(t, "FIRST", 1), number(t, "SEEDS", 500)
	begin := time.Now()
	var mu sync.Mutex // guards total
	each(first, n, func(seed uint64) {
		r, err := RunTwice(short(seed))
		mu.Lock()
		defer mu.Unlock()
		total.Add(r.Figures)
		report(t, err)
	})
	took := time.Since(begin).Seconds()
	t.Logf("%d seeds from %d on, each twice, in %.1f s: %d events (%.0f/s), %d turns, %d messages, %d entries, %d actions, %d writes",
		n, first, took, total.Events, 2*float64(total.Events)/took, total.Turns, total.Messages, total.Entries, total.Actions, total.Writes)
	for _, what := range sometimesReached {
		if n >= 200 && total.Sometimes[what] == 0 {
			t.Errorf("in %d seeds it never happened: %s", n, what)
		}
	}
}

// each runs do for n seeds from the first on, some at a time.
func each(first, n uint64, do func(seed uint64)) {
	next := make(chan uint64) // unbuffered: whoever is free takes the next seed
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for seed := range next {
				do(seed)
			}
		})
	}
	for seed := first; seed < first+n; seed++ {
		next <- seed
	}
	close(next)
	wg.Wait()
}

// report prints a violation with what happened just before it.
func report(t *testing.T, err error) {
	t.Helper()
	var v *Violation
	if errors.As(err, &v) {
		t.Errorf("%v\n%s", v, strings.Join(v.Trace, "\n"))
	} else if err != nil {
		t.Error(err)
	}
}

// sometimesReached is what a run of seeds must have reached at least once.
var sometimesReached = []string{
	"a change is acknowledged by a second disk",
	"a checkpoint is refused at the start",
	"a clock jumps",
	"a machine takes back what counts",
	"a newcomer to a log gets stubs",
	"content is compacted",
	"content is kept back",
	"content that was kept back is refused",
	"stubs are taken from another",
	"a commit failed",
	"a connection breaks",
	"a container ends by itself",
	"a crash cuts an action off",
	"a crash leaves a person without an answer",
	"a disk is full",
	"a disk is restored from an older copy",
	"a disk is restored while containers run",
	"a disk is wiped",
	"containers that a restored disk forgot are stopped",
	"a link is clogged",
	"a log is folded in another order",
	"a loop trespasses",
	"a machine is removed",
	"a machine joins",
	"a message is replayed",
	"a message of a stranger",
	"a one-way partition",
	"a partition",
	"a peer is killed",
	"a peer starts from a checkpoint",
	"a peer is paused",
	"a log has two histories",
	"a log on a disk is damaged",
	"a read is wrong",
	"a message is malformed",
	"a machine is upgraded",
	"a change of the next level",
	"a minority stays broken",
	"a core is rebuilt",
	"a pod has a host port",
	"a pod runs at the end",
	"a rollback",
	"a silent machine's pod is replaced",
	"an acknowledged change is lost with all its disks",
	"an action fails with its effect",
	"an action fails without effect",
	"an action hangs",
	"an action is cancelled",
	"an action times out",
	"an entry is forged",
	"crash during a sync, written=false",
	"crash during a sync, written=true",
	"entries refused at the door",
	"entries served from disk",
	"everything is at rest",
	"false suspicion",
	"the power fails",
	"two peers are found equal",
}

// regressions are seeds that found a bug once, and what it was.
var regressions = []struct {
	cfg Config
	bug string
}{
	{Config{Seed: 2, Peers: 5, Duration: 40 * time.Second}, "an announcement left before the sync and counted as holding the entry"},
	{Config{Seed: 1, Peers: 5, Duration: 40 * time.Second}, "a step without an undo was undone"},
	{Config{Seed: 7, Peers: 5, Duration: 40 * time.Second}, "the route to a deleted pod that had moved stayed"},
	{Config{Seed: 20, Peers: 5, Duration: 40 * time.Second}, "the network was taken from containers that ran, after a partition"},
	{Config{Seed: 33, Peers: 5, Duration: 40 * time.Second}, "the network was taken from containers that ran, after a partition"},
	{Config{Seed: 6, Peers: 5, Duration: 40 * time.Second}, "memory was given away that containers still used, since they had not restarted smaller yet"},
	{Config{Seed: 13, Peers: 5, Duration: 40 * time.Second}, "the network was taken from containers that went on until another machine was ready"},
	{Config{Seed: 1, Peers: 5, Duration: 30 * time.Second}, "a proof of two histories was lost on its way, and two states stayed"},
	{Config{Seed: 118, Peers: 5, Duration: 30 * time.Second}, "a pod ran twice while no machine could take it"},
	{Config{Seed: 265, Peers: 3, Duration: 30 * time.Second}, "what ran was not looked for again when the spec came back to a restored disk"},
	{Config{Seed: 70, Peers: 5, Duration: 30 * time.Second}, "the network was taken from containers whose pod belonged nowhere for a while"},
	{Config{Seed: 927, Peers: 5, Duration: 30 * time.Second}, "an older copy of a disk went on from a checkpoint that was made with more records of authorisation than it held"},
	{Config{Seed: 6409, Peers: 7, Duration: 30 * time.Second}, "a pod ran twice while its machine could not do what comes first"},
	{Config{Seed: 6569, Peers: 7, Duration: 30 * time.Second}, "a pod ran twice while its machine could not do what comes first"},
	{Config{Seed: 3927, Peers: 5, Duration: 30 * time.Second}, "a log was folded again for a difference that was over"},
	{Config{Seed: 3125, Peers: 3, Duration: 30 * time.Second}, "two peers waited for good for what would supersede compacted entries, each for others"},
	{Config{Seed: 2995, Peers: 3, Duration: 30 * time.Second}, "an older copy of a disk took the network from containers that it did not know of, before its machine was looked over"},
	{Config{Seed: 18605, Peers: 3, Duration: 30 * time.Second}, "machines were to agree who could be told of each other only by one that stayed broken"},
	{Config{Seed: 18724, Peers: 7, Duration: 30 * time.Second}, "a machine counted as working that only a broken one knew"},
	{Config{Seed: 60315, Peers: 3, Duration: 30 * time.Second}, "a machine was waited for whose sponsor was removed before anybody else knew of it"},
	{Config{Seed: 8517, Peers: 5, Duration: 30 * time.Second}, "a proof against an actor was kept by half, and convinced nobody who held the same half"},
	{Config{Seed: 6987, Peers: 5, Duration: 30 * time.Second}, "a machine was taken out in the midst of its turn, whose answer told that nobody else knew it"},
	{Config{Seed: 11705, Peers: 3, Duration: 30 * time.Second}, "the machine that began the cluster began it again from the oldest copy of its disk"},
	{Config{Seed: 8323, Peers: 6, Duration: 30 * time.Second}, "an older copy of a disk knew of a promise as it was before an edit, and gave the rest away"},
	{Config{Seed: 11816, Peers: 4, Duration: 30 * time.Second}, "a machine that was admitted after all others were upgraded came with the older program"},
	{Config{Seed: 19977, Peers: 5, Duration: 30 * time.Second}, "a copy of a disk older than all that ran took the network from it, before its machine was looked over"},
}

// TestRegressions repeats the seeds that found a bug.
func TestRegressions(t *testing.T) {
	each(1, uint64(len(regressions)), func(i uint64) {
		r := regressions[i-1]
		if _, err := Run(r.cfg); err != nil {
			t.Errorf("once: %s", r.bug)
			report(t, err)
		}
	})
}

// TestSameSeedSameTrace is invariant 13.
func TestSameSeedSameTrace(t *testing.T) {
	hashes := map[string]uint64{}
	for seed := uint64(1); seed <= 8; seed++ {
		r, err := RunTwice(short(seed))
		report(t, err)
		if other, twice := hashes[r.TraceHash]; twice {
			t.Errorf("seeds %d and %d give one trace: it says too little", seed, other)
		}
		hashes[r.TraceHash] = seed
	}
}

// TestListeningChangesNothing: a trace that is printed is the trace of the same run.
func TestListeningChangesNothing(t *testing.T) {
	cfg := short(3)
	silent, err := Run(cfg)
	report(t, err)
	var text strings.Builder
	cfg.Trace = &text
	told, err := Run(cfg)
	report(t, err)
	if told.TraceHash != silent.TraceHash || text.Len() == 0 {
		t.Errorf("traces %s and %s, %d bytes of text", silent.TraceHash, told.TraceHash, text.Len())
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, cfg := range []Config{
		{Peers: 0, Duration: time.Second}, {Peers: MaxPeers + 1, Duration: time.Second},
		{Peers: 3}, {Peers: 3, Duration: MaxDuration + 1},
	} {
		if _, err := Run(cfg); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
}
