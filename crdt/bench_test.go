package crdt

import (
	"fmt"
	"runtime"
	"testing"
)

// podChange is the creation of a pod as a person writes it.
func podChange(t testing.TB, i int) entry {
	w := &writer{t: t, ref: Ref{"Pod", "default", fmt.Sprintf("web-%d", i)}, nonce: uint64(i)}
	return w.create(uint64(i)<<16, "user:alice",
		set("spec.containers.app.image", `"localhost/hello:1"`),
		set("spec.containers.app.args", `["--listen","[::]:8080"]`),
		set("spec.containers.app.env.GREETING", `"hello"`),
		set("spec.containers.app.resources.cpu", "500"),
		set("spec.containers.app.resources.memory", "67108864"),
		set("spec.containers.app.ports.http", "8080"),
		set("spec.stop.grace", `"10s"`))
}

func podResult(t testing.TB, e entry, n uint64) entry {
	w := &writer{t: t, ref: e.change.Object, nonce: n}
	return w.make(n<<16, "loop:scheduler", e.id, nil, result("schedule", Register{
		Attempt: n, Phase: PhaseDone, Executor: machine(1), Reads: idOf("reads"),
		Queued: 1_790_000_000_000, Ready: 1_790_000_000_001, Started: 1_790_000_000_001, Finished: 1_790_000_000_002,
		Outputs: map[string]string{"status.machine": `"m1"`, "status.score": "17"},
	}))
}

func BenchmarkDecodeChange(b *testing.B) {
	raw := typical().Encode()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeChange(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeResult(b *testing.B) {
	raw := typicalResult().Encode()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeChange(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkChangeID(b *testing.B) {
	raw := typical().Encode()
	b.ReportAllocs()
	for b.Loop() {
		ChangeID(ActorID{1}, raw)
	}
}

func BenchmarkDecodeBatch(b *testing.B) {
	raw := typicalBatch(typical(), typicalResult()).Encode()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeBatch(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifyBatch(b *testing.B) {
	batch, pub := typicalBatch(typical()), public(testKey(1))
	for b.Loop() {
		if err := batch.Verify(VerifyEd25519, pub); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAccept(b *testing.B) {
	h := newHistory(1, "a")
	l := newLog(b, nil)
	accept(b, l, h.batch(1, 1))
	next := Batch{Actor: h.actor, First: 2, Prev: h.hashes[0], Changes: [][]byte{typicalResult().Encode()}}
	for b.Loop() {
		if a, err := l.Accept(next); err != nil || a.Verdict != New {
			b.Fatal(a, err)
		}
		next.First, next.Prev = next.First+1, next.LastHash()
	}
}

func BenchmarkApplyCreate(b *testing.B) {
	s := newState(b, rules())
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		e := podChange(b, i)
		b.StartTimer()
		s.Apply(e.change, e.id)
	}
}

func BenchmarkApplyResult(b *testing.B) {
	s := newState(b, rules())
	e := podChange(b, 1)
	applyAll(s, e)
	g := podResult(b, e, 1)
	b.ReportAllocs()
	for i := uint64(2); b.Loop(); i++ {
		g.change.Ops[0].Register.Attempt = i
		g.id[0]++
		if a := s.Apply(g.change, g.id); a.Outcome != Took {
			b.Fatal(a)
		}
	}
}

func BenchmarkHashAfterResult(b *testing.B) {
	s := newState(b, rules())
	e := podChange(b, 1)
	applyAll(s, e)
	g := podResult(b, e, 1)
	for i := uint64(2); b.Loop(); i++ {
		g.change.Ops[0].Register.Attempt = i
		s.Apply(g.change, g.id)
		s.Hash()
	}
}

// BenchmarkMemory reports the bytes that a pod takes: fresh, and with the results
// of nine steps.
func BenchmarkMemory(b *testing.B) {
	for _, results := range []int{0, 9} {
		b.Run(fmt.Sprintf("results=%d", results), func(b *testing.B) {
			const pods = 10_000
			cfg := rules()
			cfg.StepOwner = func(string, string) string { return "scheduler" }
			var bytes uint64
			for b.Loop() {
				before := heap()
				s := newState(b, cfg)
				for i := range pods {
					e := podChange(b, i)
					applyAll(s, e)
					for n := range results {
						g := podResult(b, e, 1)
						g.change.Ops[0].Path = fmt.Sprintf("step-%d", n)
						s.Apply(g.change, g.id)
					}
				}
				s.Objects("Pod")
				bytes = heap() - before
				runtime.KeepAlive(s)
			}
			b.ReportMetric(float64(bytes)/pods, "B/pod")
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
