package sim

import (
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/peer"
)

// leaseStorm runs one seed in which every pod is leased and the cluster is cut again and
// again, long enough for leases to end.
func leaseStorm(t *testing.T, seed uint64, h hooks) (Figures, error) {
	t.Helper()
	cfg := Config{Seed: seed, Peers: 3 + int(seed%3), Duration: 90 * time.Second}
	w, err := newWorld(cfg, h)
	if err != nil {
		t.Fatal(err)
	}
	w.weather.leased, w.weather.partition, w.weather.edit = 1, 6*time.Second, 3*time.Second
	for _, m := range w.machines {
		m.start()
	}
	w.runFor(warmUp)
	w.beginStorm()
	w.runFor(cfg.Duration)
	if w.violation != nil {
		return w.figures, w.violation
	}
	return w.figures, nil
}

// TestLeasedPodRunsOnce is invariant 7 for leased pods, at every start.
func TestLeasedPodRunsOnce(t *testing.T) {
	all := newFigures()
	for seed := range uint64(24) {
		f, err := leaseStorm(t, seed, hooks{})
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		all.Add(f)
	}
	for _, what := range []string{
		"the voters change", "a lease is granted", "a guard kills", "a machine without its lease waits", "a leased pod is taken over",
	} {
		if all.Sometimes[what] == 0 {
			t.Errorf("%s: never", what)
		}
	}
}

// cutHolder starts one leased pod in a calm cluster and cuts its machine off for good.
func cutHolder(t *testing.T, h hooks) (w *World, holder *machine) {
	t.Helper()
	w, err := newWorld(Config{Seed: 7, Peers: 5, Duration: time.Minute, Calm: true}, h)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range w.machines {
		m.start()
	}
	w.runFor(2 * warmUp)
	w.people.write(w.machines[0], "apply", peer.Edit{Kind: peer.EditApply, Key: podKey(0), Fields: api.Fields{
		"spec.containers.app.image": api.Str(imageGood), "spec.partition": api.Str(api.PartitionLeased), "spec.grace": api.Duration(5 * time.Second),
	}})
	w.runFor(5 * time.Second)
	for _, m := range w.machines {
		if len(m.host.pods) > 0 {
			holder = m
		}
	}
	if holder == nil {
		t.Fatal("the pod runs nowhere")
	}
	w.net.block(map[int]bool{holder.index: true}, false)
	w.runFor(time.Minute)
	return w, holder
}

// TestLeasedPodIsTakenOver: its machine cut off, it stops there, and then starts elsewhere.
func TestLeasedPodIsTakenOver(t *testing.T) {
	w, holder := cutHolder(t, hooks{})
	if w.violation != nil {
		t.Fatal(w.violation)
	}
	for _, m := range w.machines {
		for _, in := range m.host.pods {
			if in.runs() && m == holder {
				t.Errorf("it still runs on %s, which is cut off", m.name)
			}
		}
	}
	if w.figures.Sometimes["a leased pod is taken over"] != 1 || w.figures.Sometimes["a guard kills"] != 1 {
		t.Errorf("taken over %d times, killed by a guard %d times; want once each",
			w.figures.Sometimes["a leased pod is taken over"], w.figures.Sometimes["a guard kills"])
	}
}

// TestUnguardedLeaseIsFound plants the bug that guards are there against.
func TestUnguardedLeaseIsFound(t *testing.T) {
	if w, _ := cutHolder(t, hooks{unguarded: true}); w.violation == nil || w.violation.Invariant != 7 {
		t.Errorf("a lease without a guard, and the pod never ran twice: %v", w.violation)
	}
}
