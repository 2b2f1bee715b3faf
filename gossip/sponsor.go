package gossip

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
)

// maxReplyPeers is how many members a newcomer is told; they lead to the rest.
const maxReplyPeers = 64

// Sponsor is the serving side of the join exchange. Its Serve is a
// [TransportConfig].Join. All fields are required.
type Sponsor struct {
	// Hello returns what this machine shows to a newcomer: [identity.Log.Hello].
	Hello func() (identity.Hello, error)
	// Redeem admits the newcomer and returns the welcome, or says why not. The
	// records of the admission are on disk before it returns. Where Peers of the
	// reply is empty it is filled in.
	Redeem func(context.Context, identity.Redemption) (identity.JoinReply, error)
	// Peers lists members by gossip address, this machine, which was reached at the
	// given address, first: [Membership.Peers].
	Peers func(local netip.Addr) []identity.Peer
	// Where returns the stream addresses of another sponsor: [Membership.StreamAddrs].
	Where func(crdt.MachineID) []string
	Log   *slog.Logger
}

// Serve speaks with one newcomer.
func (s Sponsor) Serve(ctx context.Context, secure *tls.Conn) {
	if err := s.serve(ctx, secure); err != nil {
		s.Log.Info("a machine did not join", "from", secure.RemoteAddr().String(), "err", err)
	}
}

func (s Sponsor) serve(ctx context.Context, secure *tls.Conn) error {
	hello, err := s.Hello()
	if err != nil {
		return fmt.Errorf("greet a newcomer: %w", err)
	}
	if err := writeMessage(secure, hello.Bytes()); err != nil {
		return fmt.Errorf("greet a newcomer: %w", err)
	}
	redemption, err := readRedemption(secure)
	if err != nil {
		return fmt.Errorf("read a newcomer's request: %w", err)
	}
	reply, refused := s.Redeem(ctx, redemption)
	if refused != nil {
		reply = identity.JoinReply{Refusal: s.refusal(refused)}
	} else if len(reply.Peers) == 0 {
		reply.Peers = s.Peers(addrOf(secure.LocalAddr()))
	}
	if err := answer(secure, reply); err != nil {
		return fmt.Errorf("answer %q: %w", redemption.Request.Name, err)
	}
	if refused != nil {
		return fmt.Errorf("refuse %q: %w", redemption.Request.Name, refused)
	}
	s.Log.Info("a machine joined", "machine", redemption.Request.Name, "from", secure.RemoteAddr().String())
	return nil
}

// refusal adds to "go to the sponsor" where the sponsor is.
func (s Sponsor) refusal(err error) *identity.Refusal {
	r := *identity.RefusalFor(err)
	if r.Code == api.NotSponsor && len(r.Addresses) == 0 {
		r.Addresses = s.Where(r.Sponsor)
	}
	return &r
}

func readRedemption(secure *tls.Conn) (identity.Redemption, error) {
	raw, err := readMessage(secure, identity.MaxJoinRequest)
	if err != nil {
		return identity.Redemption{}, err
	}
	request, err := identity.ParseJoinRequest(raw)
	if err != nil {
		return identity.Redemption{}, err
	}
	state := secure.ConnectionState()
	key, err := identity.PeerKey(state)
	if err != nil {
		return identity.Redemption{}, err
	}
	binding, err := identity.ChannelBinding(state)
	if err != nil {
		return identity.Redemption{}, err
	}
	return identity.Redemption{Request: request, PeerKey: key, Binding: binding, Now: time.Now()}, nil
}

// answer writes the reply and waits until the newcomer hangs up, so that closing does not
// cut the answer off.
func answer(secure *tls.Conn, reply identity.JoinReply) error {
	if err := writeMessage(secure, reply.Bytes()); err != nil {
		return err
	}
	if err := secure.CloseWrite(); err != nil {
		return err
	}
	if err := secure.SetReadDeadline(time.Now().Add(connectTimeout)); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(secure, identity.MaxJoinRequest))
	return nil
}

// Messages of the join exchange have their length, 32 bits big-endian, in front.
func writeMessage(w io.Writer, body []byte) error {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body)))
	_, err := w.Write(append(b, body...))
	return err
}

func readMessage(r io.Reader, limit int) ([]byte, error) {
	var header [4]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(header[:])
	if int64(size) > int64(limit) {
		return nil, fmt.Errorf("a message of %d bytes is over the limit of %d", size, limit)
	}
	return readBody(r, int(size))
}

// Peers lists members by gossip address for a newcomer's first steps: this machine, at
// the address where it was reached, then others, those that are alive first.
func (m *Membership) Peers(local netip.Addr) []identity.Peer {
	own := m.Addr()
	if local.IsValid() {
		own = netip.AddrPortFrom(local, own.Port())
	}
	peers := []identity.Peer{{Machine: m.cfg.Self.ID, Address: own.String()}}
	for _, alive := range []bool{true, false} {
		for _, other := range m.Members() {
			if (other.Status == Alive) == alive && other.Status != Left && len(peers) < maxReplyPeers {
				peers = append(peers, identity.Peer{Machine: other.ID, Address: other.Addr.String()})
			}
		}
	}
	return peers
}
