package rig

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"

	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/crdt"
	"starling.dev/starling/gossip"
	"starling.dev/starling/identity"
	"starling.dev/starling/oci"
	"starling.dev/starling/peer"
	"starling.dev/starling/server"
)

// Serve answers the API on a Unix socket, as a peer does, once the rig was started.
func (r *Rig) Serve(socket string) error {
	s, err := server.New(server.Config{
		Loop: r.Loop, Runtime: nothing{}, Network: nothing{}, Members: nothing{}, Key: keyOf(r.name),
		Addresses: func() []string { return nil }, Logger: r.cfg.Logger,
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("listen for commands: %w", err)
	}
	r.Go(func(ctx context.Context) error { return server.Serve(ctx, l, s.Handler()) })
	return nil
}

// Listen opens the rig's streams on loopback, where newcomers may join, too. The book tells
// where the others are.
func (r *Rig) Listen(book map[crdt.MachineID]*gossip.Transport) (*gossip.Transport, error) {
	t, err := gossip.NewTransport(gossip.TransportConfig{
		Key: keyOf(r.name), Trust: admitted{r.verifier}, Bind: netip.MustParseAddrPort("127.0.0.1:0"),
		Lookup: func(id crdt.MachineID) []string { return addressOf(book, id) }, Join: r.sponsor(book).Serve,
		Handler: func(from crdt.MachineID, frame []byte) { r.Loop.Receive(context.Background(), from, frame) },
		OnPeer: func(id crdt.MachineID, up bool) {
			r.Loop.Post(context.Background(), peer.Membership{Machine: id, Alive: up})
			r.Loop.Post(context.Background(), peer.Connection{Machine: id, Up: up})
		},
		Log: r.cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	r.send = t.Send
	book[MachineID(r.name)] = t
	return t, t.Listen()
}

type admitted struct{ v *peer.Verifier }

func (a admitted) Admitted(pub ed25519.PublicKey) (identity.Machine, bool) {
	return a.v.Snapshot().Admitted(pub)
}

// nothing stands for the parts of a machine that a rig does not have.
type nothing struct{}

var errNothing = errors.New("a rig has no containers, network and members")

func (nothing) Logs(context.Context, string, string, oci.LogOptions, func(oci.LogLine) error) error {
	return errNothing
}
func (nothing) Exec(context.Context, string, string, oci.ExecSpec) (uint32, error) {
	return 0, errNothing
}
func (nothing) Import(context.Context, io.Reader) ([]oci.Image, error)             { return nil, errNothing }
func (nothing) List(context.Context) ([]oci.Image, error)                          { return nil, errNothing }
func (nothing) Export(context.Context, string, io.Writer) error                    { return errNothing }
func (nothing) Discard(context.Context, string) (oci.Image, error)                 { return oci.Image{}, errNothing }
func (nothing) Prune(context.Context) ([]oci.Image, error)                         { return nil, errNothing }
func (nothing) Usage(context.Context) ([]oci.Usage, error)                         { return nil, errNothing }
func (nothing) ReadFiles(context.Context, string, string, string, io.Writer) error { return errNothing }
func (nothing) WriteFiles(context.Context, string, string, string, io.Reader) error {
	return errNothing
}
func (nothing) State(context.Context) (string, error)                  { return "", errNothing }
func (nothing) Findings(context.Context) ([]*apiv1.Finding, error)     { return nil, errNothing }
func (nothing) Dial(context.Context, string, uint16) (net.Conn, error) { return nil, errNothing }
func (nothing) HTTPClient(crdt.MachineID) *http.Client                 { return http.DefaultClient }

func (nothing) Tunnels(context.Context) (*apiv1.TunnelsResponse, error) {
	return &apiv1.TunnelsResponse{}, nil
}
