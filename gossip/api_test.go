package gossip

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
)

// peerOf returns the machine that sent a request over [Transport.APIListener].
func peerOf(r *http.Request) (crdt.MachineID, bool) {
	if r.TLS == nil {
		return crdt.MachineID{}, false
	}
	key, err := identity.PeerKey(*r.TLS)
	if err != nil {
		return crdt.MachineID{}, false
	}
	return identity.IDOf(key), true
}

// serveAPI answers every request with the name of the machine that sent it.
func serveAPI(t *testing.T, s *stream) {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	server := &http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, ok := peerOf(r)
		fmt.Fprintf(w, "%s %v %s", id, ok, r.Proto)
	})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(s.APIListener()) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve the API: %v", err)
		}
	})
}

func call(t *testing.T, s *stream, id crdt.MachineID) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testDeadline)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://any.host/path", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.HTTPClient(id).Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func TestAPICarriesTheCallersIdentity(t *testing.T) {
	b, trust := &book{}, admit(1, 2, 3)
	s1, s2 := startStream(t, 1, b, trust, nil), startStream(t, 2, b, trust, nil)
	stranger := startStream(t, 4, b, admit(1, 4), nil)
	serveAPI(t, s1)
	for range 3 {
		got, err := call(t, s2, keyID(1))
		if want := keyID(2).String() + " true HTTP/2.0"; err != nil || got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
	if n := s1.openConns(); n != 1 {
		t.Errorf("three calls took %d connections", n)
	}
	if got, err := call(t, stranger, keyID(1)); err == nil {
		t.Errorf("a stranger got the answer %q", got)
	}
	if _, err := call(t, s2, keyID(3)); !errors.Is(err, ErrUnknownMachine) {
		t.Errorf("call to a machine without an address: %v", err)
	}
}

func TestAPIOfARemovedMachineIsClosed(t *testing.T) {
	b, trust := &book{}, admit(1, 2)
	s1, s2 := startStream(t, 1, b, trust, nil), startStream(t, 2, b, trust, nil)
	serveAPI(t, s1)
	c, err := s2.DialAPI(t.Context(), keyID(1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := c.(*tls.Conn).ConnectionState().NegotiatedProtocol; got != "h2" {
		t.Errorf("negotiated %q", got)
	}
	s1.wait(t, "the connection is known", func() bool { return s1.openConns() == 1 })
	trust.remove(2)
	s1.Recheck()
	if err := c.SetReadDeadline(time.Now().Add(testDeadline)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection is still open")
	}
	if n := s1.openConns(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}

func TestAnAnswerFromAnotherMachineIsNotTaken(t *testing.T) {
	b, trust := &book{}, admit(1, 2, 3)
	s1 := startStream(t, 1, b, trust, nil)
	s3 := startStream(t, 3, b, trust, nil)
	b.set(keyID(2), s3.Port()) // 3 sits where 2 is said to be
	if _, err := s1.DialAPI(t.Context(), keyID(2)); err == nil {
		t.Error("machine 3 passed for machine 2")
	}
	if err := s1.dial(t.Context(), s1.mustPeer(keyID(2))); err == nil {
		t.Error("machine 3 passed for machine 2")
	}
}
