package peer

import (
	"container/heap"
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
)

// spread simulates how entries reach many peers: production cores (journal, push tree,
// anti-entropy) joined by links with latency and loss, in virtual time. What all have
// in common (the authorisation log, the kinds) is shared in memory.
type spread struct {
	t      testing.TB
	cfg    spreadConfig
	random *rand.Rand
	now    time.Duration
	queue  spreadHeap
	serial uint64
	peers  []*spreadPeer
	index  map[crdt.MachineID]int
	// got holds, for the entry that is followed, when each peer had it; -1 for never.
	got     []time.Duration
	follow  crdt.ActorID
	seq     uint64
	copies  int
	payload int
	wrote   int
	start   time.Time
}

type spreadConfig struct {
	peers, view    int
	latency        [2]time.Duration // one way, least and most
	loss           float64
	sync           time.Duration
	noPeriodicSync bool
	// steady: a link keeps its latency but for a tenth; else each message has one of its own.
	steady bool
	// authors is how many of the peers write, in turn.
	authors int
}

type spreadPeer struct {
	core *Core
	wake time.Duration
	log  []crdt.Batch
}

type spreadEvent struct {
	at     time.Duration
	serial uint64
	to     int
	from   crdt.MachineID
	m      Message // nil: a tick
}

type spreadHeap []spreadEvent

func (h spreadHeap) Len() int { return len(h) }
func (h spreadHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].serial < h[j].serial
}
func (h spreadHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *spreadHeap) Push(x any)   { *h = append(*h, x.(spreadEvent)) }
func (h *spreadHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

func newSpread(t testing.TB, cfg spreadConfig) *spread {
	s := &spread{t: t, cfg: cfg, random: rand.New(rand.NewPCG(1, uint64(cfg.peers))), index: map[crdt.MachineID]int{}}
	s.start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	log, err := identity.Begin(identity.BeginConfig{
		Name: "spread", MachineName: "m0", RootKey: testKey("root"), MachineKey: testKey("m0"), Clock: identity.ClockAt(s.start),
	}, zeros{})
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := Kinds()
	if err != nil {
		t.Fatal(err)
	}
	trust := newDirectory(log)
	key := testKey("m0")
	for i := range cfg.peers {
		id := crdt.MachineIDOf(key.Public().(ed25519.PublicKey))
		if i > 0 {
			id = crdt.MachineID{0xff}
			binary.BigEndian.PutUint64(id[8:], uint64(i))
		}
		s.index[id] = i
		s.peers = append(s.peers, &spreadPeer{core: bareCore(t, Machine{ID: id, Name: "m0"}, trust, kinds, uint64(i), s.start)})
	}
	s.connectAll()
	return s
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// bareCore is a core that shares its directory with others.
func bareCore(t testing.TB, self Machine, trust *directory, kinds map[string]Kind, seed uint64, now time.Time) *Core {
	key := testKey("m0")
	c := &Core{
		self: self, now: now, random: rand.New(rand.NewPCG(seed, 7)), trust: trust, members: newMembers(self.ID),
		authSaved: trust.Len(),
		cfg: Config{
			Self: self, PublicKey: key.Public().(ed25519.PublicKey), Kinds: kinds, Sign: func([]byte) []byte { return make([]byte, 64) },
			HashAt: func(crdt.ActorID, uint64) (crdt.ID, bool) { return crdt.ID{}, false },
		},
	}
	c.engine, c.replica, c.writes, c.compaction = newEngine(c), newReplicator(c), newWrites(c), newCompaction(c)
	var err error
	if c.journal, err = newJournal(c); err != nil {
		t.Fatal(err)
	}
	return c
}

// connectAll gives each peer a view: neighbours on a ring and random others, both ways.
func (s *spread) connectAll() {
	n := len(s.peers)
	links := make([]map[int]bool, n)
	for i := range links {
		links[i] = map[int]bool{}
	}
	join := func(a, b int) {
		if a != b {
			links[a][b], links[b][a] = true, true
		}
	}
	for i := range n {
		join(i, (i+1)%n)
		for len(links[i]) < min(s.cfg.view/2+1, n-1) {
			join(i, s.random.IntN(n))
		}
	}
	for i, p := range s.peers {
		for _, j := range sortedKeys(links[i]) {
			id := s.peers[j].core.self.ID
			p.core.members.connect(id, true, s.start)
			p.core.members.get(id, s.start).alive = true
		}
		// Anti-entropy starts spread out over its period.
		p.core.replica.nextSync = s.start.Add(time.Duration(s.random.IntN(1000)) * time.Millisecond)
		if s.cfg.noPeriodicSync {
			p.core.replica.nextSync = s.start.Add(time.Hour)
		}
	}
}

func (s *spread) push(e spreadEvent) {
	s.serial++
	e.serial = s.serial
	heap.Push(&s.queue, e)
}

// write has the next author write one entry and follows it until every peer has it.
func (s *spread) write(n int) []time.Duration {
	s.got = make([]time.Duration, len(s.peers))
	for i := range s.got {
		s.got[i] = -1
	}
	s.copies, s.payload = 0, 0
	w := s.wrote % max(1, s.cfg.authors) * 97 % len(s.peers)
	s.wrote++
	p := s.peers[w]
	p.core.Step(s.at(), Tick{})
	p.core.journal.write(crdt.Change{
		Object: crdt.Ref{Kind: "Pod", Namespace: "default", Name: fmt.Sprint("p", n)}, Author: "user:alice",
		Ops: []crdt.Op{{Kind: crdt.OpCreate}, {Kind: crdt.OpSet, Path: "lifecycle.target", Value: `"stopped"`}},
	})
	s.follow, s.seq = crdt.ActorID{}, 0
	begun := s.now
	s.turn(w)
	s.follow, s.seq = p.core.journal.actor, p.core.journal.log.Head(p.core.journal.actor).Seq
	s.got[w] = begun
	left := len(s.peers) - 1
	for left > 0 && s.queue.Len() > 0 && s.now < begun+10*time.Second {
		left -= s.next()
	}
	if left > 0 {
		s.t.Fatalf("%d of %d peers did not get the entry within 10 s", left, len(s.peers))
	}
	times := make([]time.Duration, len(s.got))
	for i, at := range s.got {
		times[i] = at - begun
	}
	slices.Sort(times)
	return times
}

func (s *spread) at() time.Time { return s.start.Add(s.now) }

// next carries one event out, and reports how many peers got the entry by it.
func (s *spread) next() int {
	e := heap.Pop(&s.queue).(spreadEvent)
	s.now = e.at
	p := s.peers[e.to]
	if e.m == nil {
		if e.at != p.wake {
			return 0
		}
		p.wake = 0
		p.core.Step(s.at(), Tick{})
	} else {
		if push, ok := e.m.(Push); ok {
			s.copies += len(push.Batches)
		}
		p.core.Step(s.at(), Received{From: e.from, Message: e.m})
	}
	s.turn(e.to)
	if s.seq > 0 && s.got[e.to] < 0 && p.core.journal.log.Head(s.follow).Seq >= s.seq {
		s.got[e.to] = s.now
		return 1
	}
	return 0
}

func (s *spread) turn(i int) {
	p := s.peers[i]
	p.core.flushAuth()
	p.core.replica.periodic()
	p.core.journal.seal()
	r := p.core.out
	p.core.Advance()
	p.log = append(p.log, r.Commit.Batches...)
	for _, e := range r.Relay {
		s.deliver(p, e, 0)
	}
	sync := s.cfg.sync
	if r.Commit.Empty() {
		sync = 0
	}
	for _, e := range r.Send {
		s.deliver(p, e, sync)
	}
	for _, sv := range r.Serve {
		for _, b := range p.log {
			for _, rg := range sv.Ranges {
				if b.Actor == rg.Actor && b.Last() >= rg.From && b.First <= rg.To {
					s.deliver(p, Envelope{sv.To, Push{Batches: [][]byte{b.Encode()}, Fresh: sv.Fresh, Last: true}}, sync)
				}
			}
		}
	}
	if at := p.core.replica.nextWake().Sub(s.start); p.wake == 0 || at < p.wake {
		p.wake = max(at, s.now)
		s.push(spreadEvent{at: p.wake, to: i})
	}
}

func (s *spread) deliver(from *spreadPeer, e Envelope, after time.Duration) {
	s.payload += len(EncodeMessage(e.Message))
	if s.random.Float64() < s.cfg.loss {
		return
	}
	span := s.cfg.latency[1] - s.cfg.latency[0]
	delay := s.cfg.latency[0] + time.Duration(s.random.Int64N(int64(span)+1))
	to := s.index[e.To]
	if s.cfg.steady {
		a, b := min(s.index[from.core.self.ID], to), max(s.index[from.core.self.ID], to)
		link := rand.New(rand.NewPCG(uint64(a), uint64(b)))
		delay = s.cfg.latency[0] + time.Duration(link.Int64N(int64(span)+1))
		delay += time.Duration(s.random.Int64N(int64(delay)/10 + 1))
	}
	s.push(spreadEvent{at: s.now + after + delay, to: to, from: from.core.self.ID, m: e.Message})
}

var (
	lan = [2]time.Duration{200 * time.Microsecond, time.Millisecond}
	wan = [2]time.Duration{10 * time.Millisecond, 80 * time.Millisecond}
)

// Entries of any author reach everybody through the trees alone, once these have formed
// nearly once each, and by short ways; through anti-entropy where messages are lost.
func TestSpreadReachesAll(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  spreadConfig
		p99  time.Duration // virtual
	}{
		{"LAN with losses", spreadConfig{latency: lan, loss: 0.05, authors: 1}, 60 * time.Millisecond},
		{"LAN, many authors", spreadConfig{latency: lan, loss: 0.01, authors: 10}, 60 * time.Millisecond},
		{"WAN, many authors", spreadConfig{latency: wan, loss: 0.01, authors: 10, steady: true}, 250 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.peers, c.cfg.view, c.cfg.sync = 200, 12, time.Millisecond
			s := newSpread(t, c.cfg)
			for n := range 15 * c.cfg.authors {
				s.write(n)
			}
			copies := 0
			var p99s []time.Duration
			for n := range 20 {
				times := s.write(1000 + n)
				p99s = append(p99s, times[len(times)*99/100])
				copies += s.copies
			}
			if mean := float64(copies) / 20 / float64(c.cfg.peers); mean > 1.5 {
				t.Errorf("%.2f copies of an entry per peer, want at most 1.5", mean)
			}
			slices.Sort(p99s)
			if p99 := p99s[len(p99s)/2]; p99 > c.p99 {
				t.Errorf("99%% of peers had an entry after %v, want %v at most", p99, c.p99)
			}
		})
	}
}

// BenchmarkSpread follows entries of ten authors once each has written often enough for
// the trees to form. "varying" draws a latency anew for each message, which TCP would not
// do; "steady" once for each link.
func BenchmarkSpread(b *testing.B) {
	for _, net := range []struct {
		name    string
		latency [2]time.Duration
		steady  bool
	}{{"LAN", lan, false}, {"WAN-steady", wan, true}, {"WAN-varying", wan, false}} {
		for _, n := range []int{10, 100, 1000, 10000} {
			for _, authors := range []int{1, 10} {
				b.Run(fmt.Sprintf("%s/peers=%d/authors=%d", net.name, n, authors), func(b *testing.B) {
					benchmarkSpread(b, spreadConfig{
						peers: n, view: 16, latency: net.latency, steady: net.steady, authors: authors,
						loss: 0.01, sync: time.Millisecond,
					})
				})
			}
		}
	}
}

func benchmarkSpread(b *testing.B, cfg spreadConfig) {
	s := newSpread(b, cfg)
	for i := range 20 * cfg.authors {
		s.write(i)
	}
	var p99s []time.Duration
	var worst time.Duration
	copies, writes := 0, 0
	for b.Loop() {
		times := s.write(1000 + writes)
		writes++
		p99s = append(p99s, times[len(times)*99/100])
		worst = max(worst, times[len(times)-1])
		copies += s.copies
	}
	slices.Sort(p99s)
	b.ReportMetric(float64(p99s[len(p99s)/2].Microseconds())/1000, "median-p99-ms")
	b.ReportMetric(float64(p99s[len(p99s)-1].Microseconds())/1000, "worst-p99-ms")
	b.ReportMetric(float64(worst.Microseconds())/1000, "worst-ms")
	b.ReportMetric(float64(copies)/float64(writes)/float64(cfg.peers), "copies/peer")
}

// BenchmarkIdle measures what replication costs when nothing happens.
func BenchmarkIdle(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("peers=%d", n), func(b *testing.B) {
			s := newSpread(b, spreadConfig{peers: n, view: 16, latency: lan, sync: time.Millisecond})
			s.write(0)
			for i := range s.peers {
				s.turn(i)
			}
			s.payload, s.seq = 0, 0
			begun := s.now
			for b.Loop() {
				for end := s.now + 10*time.Second; s.now < end; {
					s.next()
				}
			}
			b.ReportMetric(float64(s.payload)/(s.now-begun).Seconds()/float64(n), "payload-B/s/peer")
		})
	}
}
