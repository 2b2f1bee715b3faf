package gossip

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"syscall"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
)

// maxSponsors bounds how many machines a newcomer asks: those of the token, and those
// that it is sent on to.
const maxSponsors = 16

// JoinConfig is what a newcomer brings.
type JoinConfig struct {
	// Addr is the machine to ask first (host, or host:port). Optional: the token has
	// its sponsor's addresses.
	Addr  string
	Token identity.Token     // required
	Key   ed25519.PrivateKey // the machine's key; required
	Name  string             // required
	// Replace asks for the place of the dead machine of that name.
	Replace bool
	// Now reads the newcomer's clock, which the sponsor compares with its own. Optional.
	Now func() time.Time
}

// JoinResult is what a newcomer has once it is a member.
type JoinResult struct {
	// Log is the authorisation log, in which this machine is admitted. Save it, and the
	// key, before anything else.
	Log *identity.Log
	// Sponsor is the machine that admitted, and SponsorAddr where it was reached.
	Sponsor     crdt.MachineID
	SponsorAddr string
	// LocalAddr is the source address towards the sponsor: the one to advertise.
	LocalAddr netip.Addr
	// Known are the members to find the cluster through.
	Known []Known
	// GossipKey encrypts gossip.
	GossipKey []byte
	// Warning is for the person who joins; empty if there is nothing to say.
	Warning string
}

// ErrNoPeer: what was reached, if anything, is no Starling peer that lets machines join.
var ErrNoPeer = errors.New("no peer to join through")

// Join makes this machine a member: it proves to the token's sponsor that it holds the
// token, after the sponsor has proved that it belongs to the token's cluster. It goes to
// whichever machine it is sent on to. Errors are sentences for the person who joins;
// those of the sponsor have one of identity's codes.
func Join(ctx context.Context, cfg JoinConfig) (JoinResult, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	conf, err := identity.JoinConfig(cfg.Key)
	if err != nil {
		return JoinResult{}, fmt.Errorf("join: %w", err)
	}
	targets := slices.Clone(cfg.Token.Addresses)
	if cfg.Addr != "" {
		targets = append([]string{withPort(cfg.Addr)}, targets...)
	}
	var errs []error
	for i := 0; i < len(targets) && i < maxSponsors; i++ {
		if slices.Contains(targets[:i], targets[i]) {
			continue
		}
		result, err := joinAt(ctx, cfg, conf, targets[i])
		if err == nil {
			return result, nil
		}
		if !elsewhere(err) {
			return JoinResult{}, err
		}
		if r, ok := errors.AsType[*identity.Refusal](err); ok {
			targets = append(targets, r.Addresses...)
		}
		errs = append(errs, err)
	}
	return JoinResult{}, errors.Join(errs...)
}

// elsewhere tells whether another machine may be of more help: one that can be reached, or
// that is of the right cluster, or the sponsor, who knows the token before anyone.
func elsewhere(err error) bool {
	switch identity.CodeOf(err) {
	case "", api.NotSponsor, api.WrongCluster, api.TokenInvalid:
		return true
	}
	return false
}

func withPort(addr string) string {
	if _, _, err := net.SplitHostPort(addr); err == nil {
		return addr
	}
	if ip, err := netip.ParseAddr(addr); err == nil {
		return netip.AddrPortFrom(ip, DefaultStreamPort).String()
	}
	return net.JoinHostPort(addr, strconv.Itoa(DefaultStreamPort))
}

func joinAt(ctx context.Context, cfg JoinConfig, conf *tls.Config, addr string) (JoinResult, error) {
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	secure, err := dialJoin(ctx, conf, addr)
	if err != nil {
		return JoinResult{}, err
	}
	defer secure.Close()
	stop := context.AfterFunc(ctx, func() { secure.NetConn().Close() })
	defer stop()
	n := identity.Newcomer{Token: cfg.Token, Key: cfg.Key, Name: cfg.Name, Replace: cfg.Replace}
	log, reply, err := exchange(secure, n, cfg.Now, addr)
	if err != nil {
		return JoinResult{}, err
	}
	server, err := identity.PeerKey(secure.ConnectionState())
	if err != nil {
		return JoinResult{}, fmt.Errorf("join through %s: %w", addr, err)
	}
	return JoinResult{
		Log: log, Sponsor: identity.IDOf(server), SponsorAddr: addr,
		LocalAddr: addrOf(secure.LocalAddr()), Known: knownOf(reply.Peers),
		GossipKey: reply.GossipKey, Warning: reply.Warning,
	}, nil
}

func dialJoin(ctx context.Context, conf *tls.Config, addr string) (*tls.Conn, error) {
	dialer := net.Dialer{Timeout: connectTimeout}
	raw, err := dialer.DialContext(ctx, "tcp", addr)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%w: nobody listens at %s; is `peer` running there, and is the port right? (%v)", ErrNoPeer, addr, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %s can't be reached; check the address, and that no firewall drops TCP to that port (%v)", ErrNoPeer, addr, err)
	}
	secure := tls.Client(raw, conf)
	if err := secure.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, fmt.Errorf("%w: what listens at %s is not a Starling peer; check the port (%v)", ErrNoPeer, addr, err)
	}
	return secure, nil
}

func exchange(secure *tls.Conn, n identity.Newcomer, now func() time.Time, addr string) (*identity.Log, identity.JoinReply, error) {
	var none identity.JoinReply
	fail := func(err error) (*identity.Log, identity.JoinReply, error) {
		return nil, none, fmt.Errorf("join through %s: %w", addr, err)
	}
	raw, err := readMessage(secure, identity.MaxHello)
	if errors.Is(err, io.EOF) {
		return nil, none, fmt.Errorf("%w: the machine at %s turned the connection away; it may be busy, try again in a minute", ErrNoPeer, addr)
	}
	if err != nil {
		return fail(err)
	}
	hello, err := identity.ParseHello(raw)
	if err != nil {
		return fail(err)
	}
	state := secure.ConnectionState()
	server, err := identity.PeerKey(state)
	if err != nil {
		return fail(err)
	}
	binding, err := identity.ChannelBinding(state)
	if err != nil {
		return fail(err)
	}
	request, err := n.Request(hello, server, binding, now())
	if err != nil {
		return fail(err)
	}
	if err := writeMessage(secure, request.Bytes()); err != nil {
		return fail(err)
	}
	if raw, err = readMessage(secure, identity.MaxJoinReply); err != nil {
		return fail(fmt.Errorf("the machine did not answer the request: %w; join again, the token is still good", err))
	}
	reply, err := identity.ParseJoinReply(raw)
	if err != nil {
		return fail(err)
	}
	log, err := n.Open(hello, reply)
	if err != nil {
		return fail(err)
	}
	return log, reply, nil
}

// knownOf reads the peers of a reply. A machine that can't be read is left out: the
// others lead to it.
func knownOf(peers []identity.Peer) []Known {
	var rows []Known
	for _, p := range peers {
		addr, err := netip.ParseAddrPort(p.Address)
		if err == nil && !p.Machine.IsZero() {
			rows = append(rows, Known{ID: p.Machine, Addr: unmap(addr)})
		}
	}
	return rows
}
