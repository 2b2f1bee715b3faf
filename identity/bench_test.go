package identity

import (
	"crypto/ed25519"
	"fmt"
	"testing"

	"starling.dev/starling/crdt"
)

// grown is a log of a cluster with n machines: a grant and an admission for each, and a
// removal for every hundredth.
func grown(b *testing.B, n int) (*Log, *world) {
	b.Helper()
	w := newWorld()
	must(b, w.begin("m0", PolicyOpen))
	l := w.logs["m0"]
	add := func(body Body) crdt.ID {
		rec, err := l.Sign(w.key("m0"), w.clock(), body)
		must(b, err)
		_, err = l.Add(rec.Bytes())
		must(b, err)
		return rec.ID()
	}
	token := testKey("token")
	for i := 1; i < n; i++ {
		name := fmt.Sprintf("m%d", i)
		pub := publicOf(testKey(name))
		grant := add(Grant{TokenKey: publicOf(token), Sponsor: w.id("m0"), ExpiresUnixMillis: 1})
		a := Admit{PublicKey: pub, Name: name, Grant: grant}
		a.Proof = ed25519.Sign(token, proofContent(l.Cluster(), pub, name, a.Binding))
		add(a)
		if i%100 == 0 {
			add(Remove{Machine: IDOf(pub), Reason: "old", Cut: crdt.Heads{}})
		}
	}
	return l, w
}

// BenchmarkLog measures at growing cluster sizes: opening the log from the
// network and from the disk, the snapshot after a record arrived, and the verdict on a change.
func BenchmarkLog(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10_000} {
		l, w := grown(b, n)
		records := l.Since(0)
		size := 0
		for _, raw := range records {
			size += len(raw)
		}
		b.Run(fmt.Sprintf("open/machines=%d", n), func(b *testing.B) {
			for b.Loop() {
				again, err := OpenLog(l.Genesis(), records)
				must(b, err)
				if again.Len() != len(records) {
					b.Fatal("records lost")
				}
			}
			b.ReportMetric(float64(size)/float64(n), "B/machine")
		})
		b.Run(fmt.Sprintf("load/machines=%d", n), func(b *testing.B) {
			for b.Loop() {
				_, err := LoadLog(l.Genesis(), records)
				must(b, err)
			}
		})
		b.Run(fmt.Sprintf("snapshot/machines=%d", n), func(b *testing.B) {
			for b.Loop() {
				if got := len(newSnapshot(l).Machines()); got != n {
					b.Fatalf("%d machines", got)
				}
			}
		})
		b.Run(fmt.Sprintf("permits/machines=%d", n), func(b *testing.B) {
			c := crdt.Change{At: crdt.Place{Machine: w.id("m0")}, Auth: l.Heads()}
			for b.Loop() {
				must(b, l.Permits(c))
			}
		})
	}
}
