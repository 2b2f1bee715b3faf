package sim

import (
	"fmt"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/peer"
)

// TestThousandPods is the promise that everything runs in parallel that may: a thousand pods
// that are written at once are ready within 1.1 x the critical path, which is the longest
// chain of steps of any of them, by what its actions took on the simulated hosts. All of it
// is virtual time.
func TestThousandPods(t *testing.T) {
	s := startPods(t, 5, 1000)
	t.Logf("%v", s)
	if s.ratio() > 1.1 {
		t.Errorf("%v; want at most 1.10 x", s)
	}
}

// BenchmarkThousandPods reports how close to the critical path that is, and what the
// simulation of it costs.
func BenchmarkThousandPods(b *testing.B) {
	for b.Loop() {
		s := startPods(b, 5, 1000)
		b.ReportMetric(s.ratio(), "x-critical-path")
		b.ReportMetric(s.took.Seconds()*1000, "virtual-ms")
	}
}

// started is how long some pods took to be ready, beside what the slowest would have taken
// alone if nothing but its actions took any time.
type started struct{ took, critical time.Duration }

func (s started) ratio() float64 { return float64(s.took) / float64(s.critical) }

func (s started) String() string {
	return fmt.Sprintf("all are ready after %v, %.3f x the critical path of %v", s.took, s.ratio(), s.critical)
}

// startPods writes pods at once, one change set, on a calm cluster where nobody else acts.
func startPods(tb testing.TB, peers, pods int) started {
	tb.Helper()
	took := map[api.Key]map[string]time.Duration{}
	h := hooks{weather: func(w *weather) { w.edit = 0 }, acting: func(a peer.Action, d time.Duration) {
		key := a.Inputs.Key
		if took[key] == nil {
			took[key] = map[string]time.Duration{}
		}
		took[key][a.Step.Name] += d
	}}
	w, err := newWorld(Config{Seed: 1, Peers: peers, Duration: time.Minute, Calm: true}, h)
	if err != nil {
		tb.Fatal(err)
	}
	for _, m := range w.machines {
		m.start()
	}
	w.runFor(2 * warmUp)
	var edits []peer.Edit
	for i := range pods {
		edits = append(edits, peer.Edit{Kind: peer.EditApply, Key: api.Key{Kind: "Pod", Namespace: "default", Name: fmt.Sprint("s", i)}, Fields: api.Fields{
			"spec.containers.app.image": api.Str(imageGood),
		}})
	}
	begun := w.now
	w.people.write(w.machines[0], "apply all", edits...)
	for w.violation == nil && w.now-begun < time.Minute && !w.allReady(pods) {
		w.runFor(4 * time.Millisecond)
	}
	if w.violation != nil || !w.allReady(pods) {
		tb.Fatalf("not all are ready after %v: %v", w.now-begun, w.violation)
	}
	s := started{took: w.now - begun}
	g := w.kinds["Pod"].Graph.Describe()
	for _, actions := range took {
		s.critical = max(s.critical, criticalPath(g, actions))
	}
	return s
}

// allReady asks the machines themselves: what runs and serves there.
func (w *World) allReady(pods int) bool {
	running := 0
	for _, m := range w.machines {
		running += len(m.host.pods)
	}
	if running < pods {
		return false
	}
	ready := 0
	for _, o := range w.machines[0].core.List("Pod") {
		if o.Eval.Verdict == lifecycle.Converged {
			ready++
		}
	}
	return ready == pods
}

// criticalPath is the longest chain of a lifecycle, by what its actions took.
func criticalPath(g lifecycle.Description, took map[string]time.Duration) (longest time.Duration) {
	end := map[string]time.Duration{}
	for _, n := range g.Nodes { // every edge points forwards
		for _, e := range g.Edges {
			if e.To == n.Name {
				end[n.Name] = max(end[n.Name], end[e.From])
			}
		}
		end[n.Name] += took[n.Name]
		longest = max(longest, end[n.Name])
	}
	return longest
}
