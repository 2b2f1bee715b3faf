package identity

import (
	"crypto/ed25519"
	"slices"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
)

// longChain is a cluster in which each machine sponsored the next.
func longChain(t testing.TB, n int) (*world, string) {
	w := newWorld()
	must(t, w.begin("m0", PolicyOpen))
	last := "m0"
	for i := 1; i < n; i++ {
		next := "m" + string(rune('0'+i))
		must(t, w.invite(last, last, next, time.Hour))
		_, err := w.join(joining{machine: next, token: next, at: last})
		must(t, err)
		last = next
	}
	return w, last
}

// TestHello: the chain of a machine far from the root proves the cluster, and any link
// that is missing, or another's key, does not.
func TestHello(t *testing.T) {
	w, last := longChain(t, 6)
	l := w.logs[last]
	server := publicOf(w.key(last))
	hello, err := l.Hello(server)
	must(t, err)
	must(t, hello.Verify(l.Cluster().Prefix(), server))
	if len(hello.Chain) != 11 || len(hello.Chain) >= l.Len() {
		t.Fatalf("a chain of %d records, of %d", len(hello.Chain), l.Len())
	}
	for i := range hello.Chain {
		broken := Hello{hello.Genesis, slices.Delete(slices.Clone(hello.Chain), i, i+1)}
		if err := broken.Verify(l.Cluster().Prefix(), server); CodeOf(err) != api.WrongCluster {
			t.Fatalf("without record %d of the chain: %v", i, err)
		}
	}
	if err := hello.Verify(l.Cluster().Prefix(), publicOf(w.key("impostor"))); CodeOf(err) != api.WrongCluster {
		t.Fatalf("another's key: %v", err)
	}
	if err := hello.Verify([16]byte{1}, server); CodeOf(err) != api.WrongCluster {
		t.Fatalf("another cluster: %v", err)
	}
}

// TestHelloForged: neither a genesis of one's own under the true name, nor records that
// one signed oneself, make a chain.
func TestHelloForged(t *testing.T) {
	w, last := longChain(t, 2)
	l := w.logs[last]
	server := w.key("impostor")
	g := l.Genesis()
	g.Roots = []ed25519.PublicKey{publicOf(server)}
	own, err := SignRecord(g.ID(), server, nil, 0, Admit{PublicKey: publicOf(server), Name: "m"})
	must(t, err)
	if err := (Hello{g, [][]byte{own.Bytes()}}).Verify(l.Cluster().Prefix(), publicOf(server)); CodeOf(err) != api.WrongCluster {
		t.Fatalf("a genesis of one's own: %v", err)
	}
	chain := l.Chain(w.id(last))
	for _, body := range []Body{
		Admit{PublicKey: publicOf(server), Name: "m"},
		Grant{TokenKey: publicOf(server), Sponsor: IDOf(publicOf(server))},
	} {
		rec, err := SignRecord(l.Cluster(), server, nil, 0, body)
		must(t, err)
		chain = append(chain, rec.Bytes())
	}
	if err := (Hello{l.Genesis(), chain}).Verify(l.Cluster().Prefix(), publicOf(server)); CodeOf(err) != api.WrongCluster {
		t.Fatalf("records of a stranger: %v", err)
	}
}

// redemption is a correct request at m1 with a token of its own.
func redemption(t *testing.T, w *world) Redemption {
	t.Helper()
	must(t, w.invite("m1", "m1", "t", time.Hour))
	hello, err := w.logs["m1"].Hello(publicOf(w.key("m1")))
	must(t, err)
	n := Newcomer{Token: w.tokens["t"], Key: w.key("new"), Name: "new"}
	req, err := n.Request(hello, publicOf(w.key("m1")), [32]byte{7}, w.now)
	must(t, err)
	return Redemption{Request: req, PeerKey: req.PublicKey, Binding: [32]byte{7}, Now: w.now}
}

// TestRedeemForged: a request fits the token, the key, the name and the channel that it
// was made for, and no other.
func TestRedeemForged(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*world, *Redemption)
		want   string
	}{
		{"as it should be", func(*world, *Redemption) {}, ""},
		{"another channel", func(_ *world, r *Redemption) { r.Binding[0]++ }, api.TokenInvalid},
		{"another name", func(_ *world, r *Redemption) { r.Request.Name = "else" }, api.TokenInvalid},
		{"another key", func(w *world, r *Redemption) {
			r.Request.PublicKey = publicOf(w.key("thief"))
			r.PeerKey = r.Request.PublicKey
		}, api.TokenInvalid},
		{"a key that the connection did not prove", func(w *world, r *Redemption) { r.PeerKey = publicOf(w.key("thief")) }, api.Invalid},
		{"a token that was never granted", func(w *world, r *Redemption) {
			r.Request.TokenKey = publicOf(w.key("own"))
			r.Request.Proof = ed25519.Sign(w.key("own"), proofContent(w.logs["m1"].Cluster(), r.Request.PublicKey, "new", r.Binding))
		}, api.TokenInvalid},
		{"no proof", func(_ *world, r *Redemption) { r.Request.Proof = nil }, api.TokenInvalid},
		{"a clock at zero", func(_ *world, r *Redemption) { r.Request.ClockUnixMillis = 0 }, api.ClockSkew},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := twoMachines(t)
			r := redemption(t, w)
			before := w.logs["m1"].Digest()
			tc.change(w, &r)
			_, err := w.logs["m1"].Redeem(w.key("m1"), r)
			if CodeOf(err) != tc.want {
				t.Fatalf("error %v, want code %q", err, tc.want)
			}
			if err != nil && w.logs["m1"].Digest() != before {
				t.Fatal("a refused request changed the log")
			}
		})
	}
}

// TestSponsorTwice: a sponsor that was set back and redeems a token twice says so in the
// log, and both machines are shown; one whose records show that it knew is refused.
func TestSponsorTwice(t *testing.T) {
	w := twoMachines(t)
	r := redemption(t, w)
	l := w.logs["m1"]
	restored, err := OpenLog(l.Genesis(), l.Since(0))
	must(t, err)
	_, err = l.Redeem(w.key("m1"), r)
	must(t, err)

	n := Newcomer{Token: w.tokens["t"], Key: w.key("second"), Name: "second"}
	hello, err := restored.Hello(publicOf(w.key("m1")))
	must(t, err)
	r.Request, err = n.Request(hello, publicOf(w.key("m1")), r.Binding, w.now)
	must(t, err)
	r.PeerKey = r.Request.PublicKey
	recs, err := restored.Redeem(w.key("m1"), r)
	must(t, err)
	for _, rec := range recs {
		_, err := l.Add(rec.Bytes())
		must(t, err)
	}
	for _, name := range []string{"new", "second"} {
		if _, ok := l.Snapshot().ByName(name); !ok {
			t.Fatalf("machine %s is not shown", name)
		}
	}
	grant := recs[0].Body.(Admit)
	rec, err := l.Sign(w.key("m1"), w.clock(), grant)
	must(t, err)
	if why := l.Snapshot().judge.preview(l.place(rec)); why != "its grant was used before" {
		t.Fatalf("knowingly a third time: %q", why)
	}
}

// TestVotersArePublished: each record is of the next epoch, in whatever order the
// machines are given, and a record of another epoch has no effect.
func TestVotersArePublished(t *testing.T) {
	w := twoMachines(t)
	l := w.logs["m1"]
	both := []crdt.MachineID{w.id("m2"), w.id("m1")}
	slices.SortFunc(both, func(a, b crdt.MachineID) int { return compareMachines(b, a) })
	for epoch := uint64(2); epoch < 4; epoch++ {
		_, err := l.PublishVoters(w.key("m1"), w.clock(), both)
		must(t, err)
		if v := l.Snapshot().Voters(); v.Epoch != epoch || difference(v.Machines, both) != 0 || len(v.Machines) != 2 {
			t.Fatalf("got %+v, want both in epoch %d", v, epoch)
		}
	}
	if _, err := l.issue(w.key("m1"), w.clock(), Voters{Epoch: 9, Machines: both[:1]}); CodeOf(err) != api.Unauthorized {
		t.Errorf("a record that skips epochs: %v", err)
	}
}

func difference(a, b []crdt.MachineID) int {
	n := 0
	for _, id := range a {
		if !slices.Contains(b, id) {
			n++
		}
	}
	return n
}

// TestEpochsAreNotUsedUp: a record that claims a far epoch has no effect on the next.
func TestEpochsAreNotUsedUp(t *testing.T) {
	w := twoMachines(t)
	l := w.logs["m1"]
	greedy, err := l.Sign(w.key("m2"), w.clock(), Voters{Epoch: maxStamp, Machines: []crdt.MachineID{w.id("m2")}})
	must(t, err)
	_, err = l.Add(greedy.Bytes())
	must(t, err)
	_, err = l.PublishVoters(w.key("m1"), w.clock(), []crdt.MachineID{w.id("m1")})
	must(t, err)
	if v := l.Snapshot().Voters(); len(v.Machines) != 1 || v.Epoch > 4 {
		t.Fatalf("voters %+v", v)
	}
}

func TestBeginRefuses(t *testing.T) {
	good := BeginConfig{Name: "c", MachineName: "m", RootKey: testKey("root"), MachineKey: testKey("m"), SecondRoot: publicOf(testKey("root2"))}
	if l, err := Begin(good, newWorld()); err != nil || len(l.Genesis().Roots) != 2 {
		t.Fatalf("%v", err)
	}
	for name, change := range map[string]func(*BeginConfig){
		"no root key":       func(c *BeginConfig) { c.RootKey = nil },
		"one key for both":  func(c *BeginConfig) { c.MachineKey = c.RootKey },
		"bad cluster name":  func(c *BeginConfig) { c.Name = "A b" },
		"no machine name":   func(c *BeginConfig) { c.MachineName = "" },
		"the same root":     func(c *BeginConfig) { c.SecondRoot = publicOf(c.RootKey) },
		"a short root":      func(c *BeginConfig) { c.SecondRoot = []byte{1} },
		"an unknown policy": func(c *BeginConfig) { c.Policy = 9 },
	} {
		c := good
		change(&c)
		if _, err := Begin(c, newWorld()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestRepliesStayReadable: however many peers and addresses there are to tell, the
// message can be read.
func TestRepliesStayReadable(t *testing.T) {
	w := twoMachines(t)
	peers := slices.Repeat([]Peer{{w.id("m1"), "[fd00::1]:7946"}}, 2*maxPeers)
	welcome, err := ParseJoinReply(w.logs["m1"].Welcome(peers, make([]byte, 32)).Bytes())
	must(t, err)
	if len(welcome.Peers) != maxPeers || welcome.Peers[0] != peers[0] || welcome.Warning == "" {
		t.Fatalf("%d peers, warning %q", len(welcome.Peers), welcome.Warning)
	}
	refusal := &Refusal{Code: api.NotSponsor, Message: "m", Sponsor: w.id("m1"), Addresses: slices.Repeat([]string{"m1:1"}, 50)}
	reply, err := ParseJoinReply(JoinReply{Refusal: refusal}.Bytes())
	must(t, err)
	if len(reply.Refusal.Addresses) != maxTokenAddress || reply.Refusal.Sponsor != w.id("m1") {
		t.Fatalf("%+v", reply.Refusal)
	}
}
