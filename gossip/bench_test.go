package gossip

import (
	"context"
	"fmt"
	"testing"
	"time"

	"starling.dev/starling/crdt"
)

// BenchmarkIdle measures what a cluster at rest costs each of its machines, with the
// timings of production. One iteration is one second: run it with -benchtime 60x, which
// also spans exchanges of the whole state.
func BenchmarkIdle(b *testing.B) {
	for _, n := range []int{2, 5} {
		b.Run(fmt.Sprintf("machines=%d", n), func(b *testing.B) {
			all := startMachines(b, n, &cut{}, DefaultStreamTiming(), LAN())
			for _, m := range all {
				m.waitConnected(b, all, true)
			}
			second := time.NewTicker(time.Second)
			defer second.Stop()
			<-second.C
			members, streams := sent(all)
			start := time.Now()
			for b.Loop() {
				<-second.C
			}
			m, s := sent(all)
			per := time.Since(start).Seconds() * float64(n)
			b.ReportMetric(float64(m-members)/per, "gossip-B/s/machine")
			b.ReportMetric(float64(s-streams)/per, "streams-B/s/machine")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func sent(all []*machine) (members, streams uint64) {
	for _, m := range all {
		members += m.node.BytesSent()
		streams += m.stream.Stats().BytesSent
	}
	return members, streams
}

func startPair(b *testing.B, handler func(crdt.MachineID, []byte)) (from, to *stream) {
	places, trust := &book{}, admit(1, 2)
	from = startStream(b, 1, places, trust, nil)
	to = startStream(b, 2, places, trust, func(c *TransportConfig) { c.Handler = handler })
	from.SetPeers([]crdt.MachineID{keyID(2)})
	from.waitUp(b, keyID(2), true)
	return from, to
}

// BenchmarkPing is the round trip over an idle connection: what a small frame takes to
// arrive, twice.
func BenchmarkPing(b *testing.B) {
	from, _ := startPair(b, func(crdt.MachineID, []byte) {})
	for b.Loop() {
		if _, err := from.Ping(context.Background(), keyID(2)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkThroughput sends frames as fast as the receiver takes them.
func BenchmarkThroughput(b *testing.B) {
	for _, size := range []int{300, 64 << 10} {
		b.Run(fmt.Sprintf("frame=%d", size), func(b *testing.B) {
			const window = 64 // frames on their way at most: well within the queue
			credit := make(chan struct{}, window)
			from, _ := startPair(b, func(crdt.MachineID, []byte) { <-credit })
			body := make([]byte, size)
			b.SetBytes(int64(size))
			for b.Loop() {
				credit <- struct{}{}
				if err := from.Send(keyID(2), body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
