package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"starling.dev/starling/api"
)

// serve accepts connections on a loopback socket and hands each, after its handshake, to
// handle; refused handshakes are reported.
func serve(t *testing.T, config *tls.Config, handle func(*tls.Conn)) (addr string, refused <-chan error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	errs := make(chan error, 16)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			raw, err := ln.Accept()
			if err != nil {
				return
			}
			conn := tls.Server(raw, config)
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			if err := conn.Handshake(); err != nil {
				errs <- err
			} else {
				handle(conn)
			}
			conn.Close()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	return ln.Addr().String(), errs
}

// dial connects and reads one byte: a TLS 1.3 client learns of its refusal only then.
func dial(addr string, config *tls.Config) error {
	conn, err := tls.Dial("tcp", addr, config)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	_, err = io.ReadFull(conn, make([]byte, 1))
	return err
}

func greet(c *tls.Conn) { _, _ = c.Write([]byte{1}) }

// TestTLS connects over real sockets: members are let in both ways, and nobody else is.
func TestTLS(t *testing.T) {
	w := twoMachines(t)
	l := w.logs["m1"]
	trust := newCurrent(l.Snapshot())
	server, err := ServerConfig(w.key("m1"), trust, ALPNFrames, ALPNAPI, ALPNJoin)
	must(t, err)
	addr, refused := serve(t, server, greet)
	client := func(name string, change func(*tls.Config)) *tls.Config {
		c, err := ClientConfig(w.key(name), trust, ALPNFrames)
		must(t, err)
		if change != nil {
			// Whoever breaks the rules does not check the server either.
			c.VerifyConnection = nil
			change(c)
		}
		return c
	}
	joining, err := JoinConfig(w.key("stranger"))
	must(t, err)

	if err := dial(addr, client("m2", nil)); err != nil {
		t.Fatalf("a member: %v", err)
	}
	if err := dial(addr, joining); err != nil {
		t.Fatalf("a newcomer who wants to join: %v", err)
	}
	for _, tc := range []struct {
		name   string
		config *tls.Config
		want   string
	}{
		{"a stranger", client("stranger", nil), ErrStrangerKey.Error()},
		{"a stranger at the API", client("stranger", func(c *tls.Config) { c.NextProtos = []string{ALPNAPI} }), ErrStrangerKey.Error()},
		{"no key", client("m2", func(c *tls.Config) { c.Certificates = nil }), "certificate"},
		{"a member's certificate without its key", client("m2", func(c *tls.Config) { c.Certificates[0].PrivateKey = w.key("stranger") }), ""},
		{"another kind of key", client("m2", func(c *tls.Config) { c.Certificates = []tls.Certificate{ecdsaCertificate(t)} }), "no Ed25519 key"},
		{"TLS 1.2", client("m2", func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 }), "version"},
		{"no protocol", client("m2", func(c *tls.Config) { c.NextProtos = nil }), "none of the protocols"},
		{"another protocol", client("m2", func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }), "protocol"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := dial(addr, tc.config); err == nil {
				t.Fatal("was let in")
			}
			if err := <-refused; !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("the server says %v, want %q", err, tc.want)
			}
		})
	}

	// A removal counts from the next handshake on.
	must(t, removeAt(l, w, "m2"))
	trust.Set(l.Snapshot())
	if err := dial(addr, client("m2", nil)); err == nil {
		t.Fatal("a removed machine was let in")
	}
	if err := <-refused; !errors.Is(err, ErrStrangerKey) {
		t.Fatalf("the server says %v", err)
	}
}

// TestClientRefusesStranger: a member does not speak to a server that is none.
func TestClientRefusesStranger(t *testing.T) {
	w := twoMachines(t)
	trust := newCurrent(w.logs["m1"].Snapshot())
	server, err := ServerConfig(w.key("impostor"), trust, ALPNFrames, ALPNJoin)
	must(t, err)
	addr, _ := serve(t, server, greet)
	client, err := ClientConfig(w.key("m2"), trust, ALPNFrames)
	must(t, err)
	if err := dial(addr, client); !errors.Is(err, ErrStrangerKey) {
		t.Fatalf("error %v", err)
	}
	if _, err := ClientConfig(w.key("m2"), trust, ALPNJoin); err == nil {
		t.Fatal("a member's configuration skips the check of the server on the join protocol")
	}
}

func removeAt(l *Log, w *world, name string) error {
	_, err := l.RemoveMachine(w.key("m1"), w.clock(), Remove{Machine: w.id(name)})
	return err
}

func ecdsaCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestCertificateIsReproducible(t *testing.T) {
	a, err := Certificate(testKey("m1"))
	must(t, err)
	b, err := Certificate(testKey("m1"))
	must(t, err)
	if !bytes.Equal(a.Certificate[0], b.Certificate[0]) {
		t.Fatal("one key gave two certificates")
	}
}

// TestJoinOverTLS runs the exchange on real sockets, each end with the binding that its
// own connection gives it; then a man in the middle relays it and gains nothing.
func TestJoinOverTLS(t *testing.T) {
	w := twoMachines(t)
	must(t, w.invite("m1", "m1", "t3", time.Hour))
	l := w.logs["m1"]
	config, err := ServerConfig(w.key("m1"), nil, ALPNJoin)
	must(t, err)
	addr, _ := serve(t, config, func(c *tls.Conn) { sponsorSide(w, l, c) })

	newcomer := Newcomer{Token: w.tokens["t3"], Key: w.key("m3"), Name: "m3"}
	stolen := newcomer
	stolen.Key = w.key("thief")

	// The thief sits between, with its own key towards the sponsor, and relays.
	middle, err := JoinConfig(stolen.Key)
	must(t, err)
	relay := func(c *tls.Conn) {
		up, err := tls.Dial("tcp", addr, middle)
		if err != nil {
			return
		}
		defer up.Close()
		hello, _ := readMessage(up)
		writeMessage(c, hello)
		request, _ := readMessage(c)
		writeMessage(up, request)
		reply, _ := readMessage(up)
		writeMessage(c, reply)
	}
	thiefServer, err := ServerConfig(stolen.Key, nil, ALPNJoin)
	must(t, err)
	thiefAddr, _ := serve(t, thiefServer, relay)
	if _, err := newcomerSide(newcomer, thiefAddr, w.now); CodeOf(err) != api.WrongCluster {
		t.Fatalf("through a man in the middle: %v", err)
	}

	joined, err := newcomerSide(newcomer, addr, w.now)
	must(t, err)
	if m, ok := joined.Snapshot().ByName("m3"); !ok || m.ID != w.id("m3") {
		t.Fatalf("joined as %+v", m)
	}
	if _, err := newcomerSide(stolen, addr, w.now); CodeOf(err) != api.TokenUsed {
		t.Fatalf("the token a second time: %v", err)
	}
}

func sponsorSide(w *world, l *Log, c *tls.Conn) {
	state := c.ConnectionState()
	hello, _ := l.Hello(publicOf(w.key("m1")))
	writeMessage(c, hello.Bytes())
	raw, _ := readMessage(c)
	request, err := ParseJoinRequest(raw)
	if err != nil {
		return
	}
	r := Redemption{Request: request, Now: w.now}
	if r.PeerKey, err = PeerKey(state); err != nil {
		return
	}
	if r.Binding, err = ChannelBinding(state); err != nil {
		return
	}
	reply := JoinReply{}
	if _, err := l.Redeem(w.key("m1"), r); err != nil {
		reply.Refusal = RefusalFor(err)
	} else {
		reply = l.Welcome(nil, nil)
	}
	writeMessage(c, reply.Bytes())
}

func newcomerSide(n Newcomer, addr string, now time.Time) (*Log, error) {
	config, err := JoinConfig(n.Key)
	if err != nil {
		return nil, err
	}
	c, err := tls.Dial("tcp", addr, config)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	raw, err := readMessage(c)
	if err != nil {
		return nil, err
	}
	hello, err := ParseHello(raw)
	if err != nil {
		return nil, err
	}
	server, err := PeerKey(c.ConnectionState())
	if err != nil {
		return nil, err
	}
	binding, err := ChannelBinding(c.ConnectionState())
	if err != nil {
		return nil, err
	}
	request, err := n.Request(hello, server, binding, now)
	if err != nil {
		return nil, err
	}
	writeMessage(c, request.Bytes())
	if raw, err = readMessage(c); err != nil {
		return nil, err
	}
	reply, err := ParseJoinReply(raw)
	if err != nil {
		return nil, err
	}
	return n.Open(hello, reply)
}

func writeMessage(w io.Writer, b []byte) {
	_, _ = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
}

func readMessage(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, min(binary.BigEndian.Uint32(size[:]), MaxJoinReply))
	_, err := io.ReadFull(r, b)
	return b, err
}
