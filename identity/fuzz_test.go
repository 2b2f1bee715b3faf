package identity

import (
	"bytes"
	"testing"
	"time"

	"starling.dev/starling/crdt"
)

// The decoders take bytes from strangers. Each must refuse or return a value whose
// encoding is those very bytes, so that one value has one encoding.

func FuzzRecord(f *testing.F) {
	w := newWorld()
	must(f, w.begin("m1", PolicyDelegated))
	must(f, w.invite("m1", "m1", "t", time.Hour))
	_, err := w.join(joining{machine: "m2", token: "t", at: "m1"})
	must(f, err)
	must(f, w.invite("m1", "m1", "t2", time.Hour))
	_, err = w.join(joining{machine: "m3", name: "m2", token: "t2", at: "m1", replace: true, silent: true})
	must(f, err)
	l := w.logs["m1"]
	cut := crdt.Heads{testActor("a"): testHead(3), testActor("b"): testHead(1 << 40)}
	for _, body := range []Body{
		Remove{Machine: w.id("m3"), Reason: "r", Distrust: true, Cut: cut}, Unknown{Kind: 77, Raw: []byte("x")},
		Rename{Machine: w.id("m1"), Name: "n"},
	} {
		rec, err := l.Sign(w.key("m1"), w.clock(), body)
		must(f, err)
		_, err = l.Add(rec.Bytes())
		must(f, err)
	}
	for _, raw := range l.Since(0) {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		rec, err := ParseRecord(raw)
		if err != nil {
			return
		}
		if again := encodeRecord(rec); !bytes.Equal(again, raw) {
			t.Fatalf("%x was read as %+v, which is written %x", raw, rec, again)
		}
		// Fuzzing holds no key, so the log must refuse all that it does not have.
		if grew, err := l.Add(raw); grew || err == nil && !l.Has(rec.ID()) {
			t.Fatalf("the log took in %+v: %v", rec, err)
		}
	})
}

// encodeRecord writes a record from its fields alone.
func encodeRecord(r Record) []byte {
	inner := &encoder{}
	r.Body.encode(inner)
	e := &encoder{}
	e.byte(RecordVersion)
	e.byte(byte(r.Kind))
	e.fixed(r.Issuer)
	e.uint(uint64(len(r.Parents)))
	for _, p := range r.Parents {
		e.fixed(p[:])
	}
	e.uint(r.Stamp)
	e.bytes(inner.buf)
	e.fixed(r.Sig)
	return e.buf
}

func FuzzGenesis(f *testing.F) {
	w := newWorld()
	must(f, w.begin("m1", PolicyOpen))
	f.Add(w.logs["m1"].Genesis().Bytes())
	f.Fuzz(func(t *testing.T, raw []byte) {
		if g, err := ParseGenesis(raw); err == nil && !bytes.Equal(g.Bytes(), raw) {
			t.Fatalf("%x was read as %+v, which is written %x", raw, g, g.Bytes())
		}
	})
}

func FuzzToken(f *testing.F) {
	token, err := NewToken(ClusterID{1}, []string{"10.0.0.1:1", "[fd00::1]:2", "m1:3"}, newWorld())
	must(f, err)
	f.Add(token.String(), []byte("x"))
	payload, err := token.encode()
	must(f, err)
	f.Add("st1-", payload)
	f.Fuzz(func(t *testing.T, text string, payload []byte) {
		if got, err := ParseToken(text); err == nil {
			if again, err := ParseToken(got.String()); err != nil || again.Seed != got.Seed {
				t.Fatalf("%q was read as %+v, which is written %s", text, got, got)
			}
		}
		// Fuzzing finds no checksums, so what lies behind one is tried by itself.
		if got, err := decodeToken(payload); err == nil {
			if again, err := got.encode(); err != nil || !bytes.Equal(again, payload) {
				t.Fatalf("%x was read as %+v, which is written %x", payload, got, again)
			}
		}
	})
}

func FuzzMessages(f *testing.F) {
	w := newWorld()
	must(f, w.begin("m1", PolicyOpen))
	l := w.logs["m1"]
	hello, err := l.Hello(publicOf(w.key("m1")))
	must(f, err)
	f.Add(hello.Bytes())
	f.Add(l.Welcome([]Peer{{w.id("m1"), "[fd00::1]:7946"}}, []byte("key")).Bytes())
	f.Add(JoinReply{Refusal: &Refusal{Code: "TokenUsed", Message: "m", Addresses: []string{"a:1"}}}.Bytes())
	f.Add(JoinRequest{PublicKey: publicOf(w.key("m2")), Name: "m2", TokenKey: publicOf(w.key("t")), Proof: make([]byte, 64)}.Bytes())
	f.Fuzz(func(t *testing.T, raw []byte) {
		if h, err := ParseHello(raw); err == nil {
			if !bytes.Equal(h.Bytes(), raw) {
				t.Fatalf("hello %x is written %x", raw, h.Bytes())
			}
			// It may verify only if it is the cluster's own.
			if h.Verify(l.Cluster().Prefix(), publicOf(w.key("m2"))) == nil {
				t.Fatalf("a chain to a stranger: %x", raw)
			}
		}
		if r, err := ParseJoinRequest(raw); err == nil && !bytes.Equal(r.Bytes(), raw) {
			t.Fatalf("request %x is written %x", raw, r.Bytes())
		}
		if r, err := ParseJoinReply(raw); err == nil && !bytes.Equal(r.Bytes(), raw) {
			t.Fatalf("reply %x is written %x", raw, r.Bytes())
		}
	})
}
