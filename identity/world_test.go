package identity

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sort"
	"strings"
	"time"

	"starling.dev/starling/crdt"
)

// world is a small cluster in memory: one replica of the log per machine, carried
// between them only by sync. All of it is derived from names, so that transcripts
// repeat.
type world struct {
	now    time.Time
	keys   map[string]ed25519.PrivateKey
	logs   map[string]*Log
	tokens map[string]Token
	marks  map[string][]crdt.ID
	// records numbers the records in the order in which the test first saw them.
	records map[crdt.ID]int
	draws   uint64
}

func newWorld() *world {
	return &world{
		now:     time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC),
		keys:    map[string]ed25519.PrivateKey{},
		logs:    map[string]*Log{},
		tokens:  map[string]Token{},
		marks:   map[string][]crdt.ID{},
		records: map[crdt.ID]int{},
	}
}

// Read is a reproducible random source.
func (w *world) Read(p []byte) (int, error) {
	for i := range p {
		w.draws++
		sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, w.draws))
		p[i] = sum[0]
	}
	return len(p), nil
}

func testKey(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("key of " + name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func (w *world) key(name string) ed25519.PrivateKey {
	if w.keys[name] == nil {
		w.keys[name] = testKey(name)
	}
	return w.keys[name]
}

func (w *world) id(name string) crdt.MachineID { return IDOf(publicOf(w.key(name))) }

func (w *world) clock() uint64 { return ClockAt(w.now) }

func (w *world) begin(name string, policy Policy) error {
	l, err := Begin(BeginConfig{
		Name: "test", MachineName: name, Policy: policy,
		RootKey: w.key("root"), MachineKey: w.key(name), Clock: w.clock(),
	}, w)
	w.logs[name] = l
	return err
}

func (w *world) invite(by, sponsor, token string, life time.Duration) error {
	t, _, err := w.logs[by].Invite(w.key(by), Invitation{
		Sponsor: w.id(sponsor), Addresses: []string{"[fd00::1]:7946"}, Now: w.now, Life: life,
	}, w)
	w.tokens[token] = t
	return err
}

// joining is one run of the exchange, all messages in their encoded form.
type joining struct {
	machine, name, token, at string
	replace                  bool
	silent                   bool // the sponsor finds the replaced machine silent
	skew                     time.Duration
}

func (w *world) join(j joining) (warning string, err error) {
	if j.name == "" {
		j.name = j.machine
	}
	l, sponsor := w.logs[j.at], w.key(j.at)
	n := Newcomer{Token: w.tokens[j.token], Key: w.key(j.machine), Name: j.name, Replace: j.replace}
	binding := sha256.Sum256([]byte(j.machine + j.at))
	h, err := l.Hello(publicOf(sponsor))
	if err != nil {
		return "", err
	}
	if h, err = ParseHello(h.Bytes()); err != nil {
		return "", err
	}
	req, err := n.Request(h, publicOf(sponsor), binding, w.now.Add(j.skew))
	if err != nil {
		return "", err
	}
	reply, err := ParseJoinReply(w.answer(l, sponsor, j, req.Bytes(), binding).Bytes())
	if err != nil {
		return "", err
	}
	opened, err := n.Open(h, reply)
	if err == nil {
		w.logs[j.machine] = opened
	}
	return reply.Warning, err
}

func (w *world) answer(l *Log, sponsor ed25519.PrivateKey, j joining, raw []byte, binding [32]byte) JoinReply {
	req, err := ParseJoinRequest(raw)
	if err != nil {
		return JoinReply{Refusal: RefusalFor(err)}
	}
	r := Redemption{Request: req, PeerKey: publicOf(w.key(j.machine)), Binding: binding, Now: w.now}
	if j.silent {
		r.Replace = &Replacement{Cut: crdt.Heads{}}
	}
	if _, err := l.Redeem(sponsor, r); err != nil {
		return JoinReply{Refusal: RefusalFor(err)}
	}
	return l.Welcome([]Peer{{w.id(j.at), "[fd00::1]:7946"}}, []byte("hint key"))
}

// sync carries records both ways.
func (w *world) sync(a, b string) error {
	for _, way := range [][2]string{{a, b}, {b, a}} {
		from, to := w.logs[way[0]], w.logs[way[1]]
		for _, raw := range from.Missing(to.Heads(), 1<<20) {
			if _, err := to.Add(raw); err != nil {
				return err
			}
		}
	}
	return nil
}

// names replaces hashes by what a reader of a transcript knows.
func (w *world) names(text string) string {
	var pairs []string
	for name := range w.keys {
		pairs = append(pairs, w.id(name).String(), "<"+name+">")
	}
	for id, n := range w.records {
		pairs = append(pairs, id.String(), fmt.Sprintf("#%d", n))
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// number gives new records their numbers.
func (w *world) number() {
	replicas := make([]string, 0, len(w.logs))
	for name := range w.logs {
		replicas = append(replicas, name)
	}
	sort.Strings(replicas)
	for _, name := range replicas {
		for _, nd := range w.logs[name].nodes {
			if _, ok := w.records[nd.rec.id]; !ok {
				w.records[nd.rec.id] = len(w.records) + 1
			}
		}
	}
}

// show prints all that readers of a snapshot can see.
func show(s *Snapshot) string {
	var b strings.Builder
	for _, m := range s.Machines() {
		fmt.Fprintf(&b, "machine %s %s", m.Name, m.ID)
		if m.Voter {
			b.WriteString(" voter")
		}
		if m.Removed {
			fmt.Fprintf(&b, " removed by %s %q", m.Removal, m.Reason)
		}
		if !m.Rival.IsZero() {
			fmt.Fprintf(&b, " wants %s of %s", m.Claimed, m.Rival)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "voters epoch %d", s.Voters().Epoch)
	for _, m := range s.Voters().Machines {
		fmt.Fprintf(&b, " %s", m)
	}
	b.WriteString("\n")
	for _, r := range s.Records() {
		verdict := "counts"
		if r.Refused != "" {
			verdict = "refused: " + r.Refused
		}
		fmt.Fprintf(&b, "%s %s by %s: %s\n", r.Record.ID(), r.Record.Kind, r.Record.IssuerID(), verdict)
	}
	return b.String()
}
