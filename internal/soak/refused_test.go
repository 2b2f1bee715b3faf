package soak

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/gossip"
	"starling.dev/starling/identity"
	"starling.dev/starling/internal/bench/rig"
	"starling.dev/starling/peer"
)

func (v *victims) anyPort() netip.AddrPort { return netip.MustParseAddrPort("127.0.0.1:0") }

// TestEntriesThatAreRefused: what is forged, replayed, or of another cluster, and what comes
// from a machine that was removed, changes nothing on machines that get it over sockets.
func TestEntriesThatAreRefused(t *testing.T) {
	v, random, n := startVictims(t), draws(t), rounds(t, 2)
	h := v.startHostile(t, "m3")
	log := v.newScribe(t, "m3", 1)
	v.write(t, 0, "honest", "first")
	h.push(log.wrote(log.next("third", "good")).Encode())
	for i := range v.rigs {
		until(t, "what a member writes counts", func() error {
			if got := label(t, v.rigs[i], "third"); got != `"good"` {
				return fmt.Errorf("it is %q", got)
			}
			return nil
		})
	}
	for round := range n {
		v.write(t, round%2, "honest", fmt.Sprintf("v%d", round))
		before := v.settled(t)
		for name, batches := range v.bad(t, log, random.Uint64()) {
			h.push(batches...)
			if now := v.settled(t); now != before {
				t.Fatalf("%s: %v became %v, in round %d", name, before, now, round+1)
			}
		}
		for _, key := range []ed25519.PrivateKey{rig.KeyOf("stranger"), rig.KeyOf(fmt.Sprint("stranger", round))} {
			if !turnedAway(t, v.addr("m1"), key) || !turnedAway(t, v.addr("m2"), key) {
				t.Fatal("a stranger gets a connection")
			}
		}
	}
	v.removed(t, h, log)
	t.Logf("%d rounds of %d kinds of bad entries", n, len(v.bad(t, log, 0)))
}

// bad are batches that no machine may take, by what is wrong with them.
func (v *victims) bad(t *testing.T, log *scribe, draw uint64) map[string][][]byte {
	t.Helper()
	good := log.next("bad", "wanted")
	flipped := good
	flipped.Sig = bytes.Clone(good.Sig)
	flipped.Sig[draw%64] ^= 1 << (draw % 7)
	altered := good
	altered.Changes = [][]byte{bytes.Replace(good.Changes[0], []byte("wanted"), []byte("wished"), 1)}
	foreign := v.newScribe(t, "stranger", draw).next("bad", "foreign")
	late := *log
	late.head.Seq += 5

	honest := v.stored(t)
	inAnothersName := honest[0]
	for _, b := range honest {
		if b.Actor != log.birth.ActorID() && b.Last() >= inAnothersName.Last() {
			inAnothersName = b
		}
	}
	inAnothersName = crdt.SignBatch(crdt.Batch{
		Actor: inAnothersName.Actor, First: inAnothersName.Last() + 1, Prev: inAnothersName.Head().Hash, Changes: good.Changes,
	}, crdt.Ed25519Signer(log.key))
	born := v.newScribe(t, "m2", draw)
	born.key = log.key

	var replayed [][]byte
	for range 2 {
		for i := len(honest) - 1; i >= 0; i-- {
			replayed = append(replayed, honest[i].Encode())
		}
	}
	whole := good.Encode()
	return map[string][][]byte{
		"a flipped signature":             {flipped.Encode()},
		"an altered change":               {altered.Encode()},
		"no signature":                    {crdt.SignBatch(good, func([]byte) []byte { return make([]byte, 64) }).Encode()},
		"in the name of another's actor":  {inAnothersName.Encode()},
		"a birth of another machine's":    {born.next("bad", "born").Encode()},
		"of a machine of another cluster": {foreign.Encode()},
		"with a hole before it":           {late.next("bad", "late").Encode()},
		"cut short":                       {whole[:int(draw%uint64(len(whole)))]},
		"replayed, latest first":          replayed,
	}
}

// removed has the hostile machine removed, and try on.
func (v *victims) removed(t *testing.T, h *hostile, log *scribe) {
	t.Helper()
	var cut crdt.Heads
	if err := v.rigs[0].Loop.Query(t.Context(), func(c *peer.Core) { cut = c.CutOf(id("m3")) }); err != nil {
		t.Fatal(err)
	}
	v.manage(t, func(log *identity.Log, now time.Time) error {
		_, err := log.RemoveMachine(rig.KeyOf("m1"), identity.ClockAt(now), identity.Remove{Machine: id("m3"), Reason: "hostile", Distrust: true, Cut: cut})
		return err
	})
	before := v.settled(t)
	for _, streams := range v.book {
		streams.Recheck() // as a daemon does when the authorisation log changes
	}
	until(t, "the removed machine is disconnected", func() error {
		if left := h.streams.Connected(); len(left) > 0 {
			return fmt.Errorf("it is connected to %v", left)
		}
		return nil
	})
	for _, name := range []string{"m1", "m2"} {
		if !turnedAway(t, v.addr(name), h.key) {
			t.Errorf("%s talks to a machine that was removed", name)
		}
		if err := h.streams.Send(id(name), peer.EncodeMessage(peer.Push{Batches: [][]byte{log.next("bad", "removed").Encode()}, Fresh: true})); err != nil {
			t.Log(err) // also well
		}
	}
	if now := v.settled(t); now != before {
		t.Errorf("a removed machine changed %v into %v", before, now)
	}
	v.passedOn(t, log)
}

// passedOn has a member pass on what the removed machine wrote after its removal: that has
// no effect, and is the same everywhere.
func (v *victims) passedOn(t *testing.T, log *scribe) {
	t.Helper()
	if _, err := v.join(t, "m4", v.invite(t, time.Now())); err != nil {
		t.Fatal(err)
	}
	v.settled(t)
	accomplice := v.startHostile(t, "m4")
	accomplice.push(log.wrote(log.next("late", "removed")).Encode())
	v.settled(t)
	for i, r := range v.rigs {
		if got := label(t, r, "late"); got != "" {
			t.Errorf("on m%d what a removed machine wrote counts: %s", i+1, got)
		}
		if got := label(t, r, "third"); got != `"good"` {
			t.Errorf("on m%d what it wrote before its removal is %q", i+1, got)
		}
	}
}

// manage states something at m1.
func (v *victims) manage(t *testing.T, do func(*identity.Log, time.Time) error) {
	t.Helper()
	if err := v.rigs[0].Loop.Manage(t.Context(), do); err != nil {
		t.Fatal(err)
	}
}

// invite makes a token that is good for an hour from a time.
func (v *victims) invite(t *testing.T, from time.Time) (token identity.Token) {
	t.Helper()
	v.manage(t, func(log *identity.Log, now time.Time) (err error) {
		token, _, err = log.Invite(rig.KeyOf("m1"), identity.Invitation{
			Sponsor: id("m1"), Addresses: []string{v.addr("m1")}, Now: from, Life: time.Hour,
		}, rand.Reader)
		return err
	})
	return token
}

// join knocks until it is heard: a machine lets a few newcomers knock in a second.
func (v *victims) join(t *testing.T, name string, token identity.Token) (result gossip.JoinResult, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		result, err = gossip.Join(ctx, gossip.JoinConfig{Addr: v.addr("m1"), Token: token, Key: rig.KeyOf(name), Name: name})
		if !errors.Is(err, gossip.ErrNoPeer) || ctx.Err() != nil {
			return result, err
		}
		pause(t, 250*time.Millisecond)
	}
}

// TestJoinsThatAreRefused: nobody comes in with a token that is forged, expired, of another
// cluster or used, with somebody else's request, or with the key of a removed machine; and
// refused, nobody leaves anything behind.
func TestJoinsThatAreRefused(t *testing.T) {
	v, n := startVictims(t), rounds(t, 2)
	for round := range n {
		name := func(what string) string { return fmt.Sprintf("%s%d", what, round) }
		used := v.once(t, name("good"))
		forged := v.invite(t, time.Now())
		forged.Seed[round%16]++
		foreign := used
		foreign.Cluster[0]++
		before := v.settled(t)
		for what, token := range map[string]identity.Token{
			api.TokenUsed: used, api.TokenInvalid: forged, api.WrongCluster: foreign,
		} {
			if _, err := v.join(t, name("bad"), token); identity.CodeOf(err) != what {
				t.Errorf("%s: got %v", what, err)
			}
		}
		v.unchanged(t, before)
		expired := v.invite(t, time.Now().Add(-2*time.Hour))
		before = v.settled(t)
		if _, err := v.join(t, name("bad"), expired); identity.CodeOf(err) != api.TokenExpired {
			t.Errorf("an expired token: %v", err)
		}
		v.replayed(t, name("thief"))
		v.unchanged(t, before)
		v.raced(t, name("racer"))
		v.rejoined(t, name("gone"))
		progress(t, round+1, n)
	}
}

// once has a machine join, and returns the token that it used.
func (v *victims) once(t *testing.T, name string) identity.Token {
	t.Helper()
	token := v.invite(t, time.Now())
	if _, err := v.join(t, name, token); err != nil {
		t.Fatal(err)
	}
	return token
}

func (v *victims) unchanged(t *testing.T, before state) {
	t.Helper()
	if now := v.settled(t); now.Heads != before.Heads || now.Objects != before.Objects {
		t.Errorf("a refused join changed %v into %v", before, now)
	}
}

// replayed shows one connection's request on another: it proves nothing there. The token
// stays good.
func (v *victims) replayed(t *testing.T, name string) {
	t.Helper()
	token := v.invite(t, time.Now())
	first, greeting := v.knock(t, rig.KeyOf(name))
	second, _ := v.knock(t, rig.KeyOf(name))
	hello, err := identity.ParseHello(greeting)
	if err != nil {
		t.Fatal(err)
	}
	server, err := identity.PeerKey(first.ConnectionState())
	if err != nil {
		t.Fatal(err)
	}
	binding, err := identity.ChannelBinding(first.ConnectionState())
	if err != nil {
		t.Fatal(err)
	}
	request, err := identity.Newcomer{Token: token, Key: rig.KeyOf(name), Name: name}.Request(hello, server, binding, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if got := v.redeem(t, second, request); got != api.TokenInvalid {
		t.Errorf("another connection's request is answered with %q", got)
	}
	if got := v.redeem(t, first, request); got != "" {
		t.Errorf("after that the request is refused where it belongs: %q", got)
	}
}

// knock opens a connection to join on, and returns what it is greeted with.
func (v *victims) knock(t *testing.T, key ed25519.PrivateKey) (conn *tls.Conn, hello []byte) {
	t.Helper()
	config, err := identity.JoinConfig(key)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "a newcomer is greeted", func() error {
		c, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", v.addr("m1"))
		if err != nil {
			return err
		}
		t.Cleanup(func() { c.Close() })
		conn = c.(*tls.Conn)
		hello, err = receive(conn)
		return err
	})
	return conn, hello
}

// redeem sends a request and returns the code that refuses it.
func (v *victims) redeem(t *testing.T, conn *tls.Conn, request identity.JoinRequest) string {
	t.Helper()
	body := request.Bytes()
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
		t.Fatal(err)
	}
	answer, err := receive(conn)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := identity.ParseJoinReply(answer)
	if err != nil {
		t.Fatal(err)
	}
	if reply.Refusal == nil {
		return ""
	}
	return reply.Refusal.Code
}

// receive reads one message of the join exchange.
func receive(conn *tls.Conn) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(conn, body)
	return body, err
}

// raced has many machines use one token at once: one of them comes in.
func (v *victims) raced(t *testing.T, name string) {
	t.Helper()
	const racers = 6
	token := v.invite(t, time.Now())
	var all sync.WaitGroup
	errs := make([]error, racers)
	for i := range racers {
		all.Go(func() { _, errs[i] = v.join(t, fmt.Sprint(name, "x", i), token) })
	}
	all.Wait()
	in := 0
	for _, err := range errs {
		switch {
		case err == nil:
			in++
		case identity.CodeOf(err) != api.TokenUsed:
			t.Errorf("a racer gets %v", err)
		}
	}
	if in != 1 {
		t.Errorf("%d machines came in with one token", in)
	}
}

// rejoined has a machine removed that joined, and come back with a good token: its key
// stays out.
func (v *victims) rejoined(t *testing.T, name string) {
	t.Helper()
	v.once(t, name)
	v.manage(t, func(log *identity.Log, now time.Time) error {
		_, err := log.RemoveMachine(rig.KeyOf("m1"), identity.ClockAt(now), identity.Remove{Machine: id(name), Reason: "it was lost"})
		return err
	})
	token := v.invite(t, time.Now())
	before := v.settled(t)
	if _, err := v.join(t, name, token); err == nil {
		t.Error("a removed machine's key came in again")
	} else if code := identity.CodeOf(err); code == "" {
		t.Errorf("a removed machine's key is refused without a reason: %v", err)
	}
	v.unchanged(t, before)
	for _, at := range []string{"m1", "m2"} {
		if !turnedAway(t, v.addr(at), rig.KeyOf(name)) {
			t.Errorf("%s talks to a machine that was removed", at)
		}
	}
}
