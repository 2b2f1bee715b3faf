package identity

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// The protocols that peers speak over TLS (RFC 7301). A server takes strangers on
// ALPNJoin only, and must serve them nothing but the join exchange.
const (
	ALPNFrames = "starling/1"
	ALPNJoin   = "starling-join/1"
	ALPNAPI    = "h2"
)

// Trust says who belongs to the cluster now. It is asked at every handshake, from many
// goroutines.
type Trust interface {
	Admitted(pub ed25519.PublicKey) (Machine, bool)
}

// Certificate wraps a machine's key in a self-signed certificate. TLS wants one; peers
// look at nothing in it but the key.
func Certificate(key ed25519.PrivateKey) (tls.Certificate, error) {
	pub := publicOf(key)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: IDOf(pub).String()},
		NotBefore:    time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
		// RFC 5280, section 4.1.2.5: no well-defined end. The log says when trust ends.
		NotAfter:    time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(nil, template, template, pub, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// ServerConfig is the configuration of a peer's listener for the given protocols. A
// client must show a member's key, except on ALPNJoin, where any key will do.
func ServerConfig(key ed25519.PrivateKey, trust Trust, protocols ...string) (*tls.Config, error) {
	config, err := baseConfig(key, protocols)
	if err != nil {
		return nil, err
	}
	config.ClientAuth = tls.RequireAnyClientCert
	config.VerifyConnection = func(state tls.ConnectionState) error {
		return verifyPeer(state, trust, protocols)
	}
	return config, nil
}

// ClientConfig is the configuration for connecting to a member. The server must show
// a member's key; that it is the one meant, the caller checks with [PeerKey].
func ClientConfig(key ed25519.PrivateKey, trust Trust, protocols ...string) (*tls.Config, error) {
	return clientConfig(key, trust, slices.DeleteFunc(slices.Clone(protocols), func(p string) bool { return p == ALPNJoin }))
}

// JoinConfig is the configuration of a newcomer, who knows no member's key: whom it
// speaks to is proved by [Hello.Verify].
func JoinConfig(key ed25519.PrivateKey) (*tls.Config, error) {
	return clientConfig(key, nil, []string{ALPNJoin})
}

func clientConfig(key ed25519.PrivateKey, trust Trust, protocols []string) (*tls.Config, error) {
	config, err := baseConfig(key, protocols)
	if err != nil {
		return nil, err
	}
	// The standard check is of names and authorities, of which there are none here;
	// VerifyConnection takes its place, on resumed connections too.
	config.InsecureSkipVerify = true
	config.VerifyConnection = func(state tls.ConnectionState) error {
		return verifyPeer(state, trust, protocols)
	}
	return config, nil
}

func baseConfig(key ed25519.PrivateKey, protocols []string) (*tls.Config, error) {
	if len(protocols) == 0 {
		return nil, errors.New("configure TLS: no protocol given")
	}
	cert, err := Certificate(key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates: []tls.Certificate{cert},
		MinVersion:   tls.VersionTLS13,
		NextProtos:   slices.Clone(protocols),
		// A ticket would outlive a removal.
		SessionTicketsDisabled: true,
	}, nil
}

// verifyPeer runs once the handshake has proved that the peer holds its key.
func verifyPeer(state tls.ConnectionState, trust Trust, protocols []string) error {
	pub, err := PeerKey(state)
	if err != nil {
		return err
	}
	// Without ALPN the handshake succeeds, and the protocol would be anyone's guess.
	if !slices.Contains(protocols, state.NegotiatedProtocol) {
		return fmt.Errorf("the peer speaks none of the protocols %q", protocols)
	}
	if state.NegotiatedProtocol == ALPNJoin {
		return nil
	}
	if _, ok := trust.Admitted(pub); !ok {
		return fmt.Errorf("%w: %s", ErrStrangerKey, IDOf(pub))
	}
	return nil
}

// PeerKey is the key that the other side of a connection proved to hold.
func PeerKey(state tls.ConnectionState) (ed25519.PublicKey, error) {
	if len(state.PeerCertificates) == 0 {
		return nil, errors.New("the peer showed no certificate")
	}
	pub, ok := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	if !ok {
		return nil, errors.New("the peer's certificate has no Ed25519 key")
	}
	return pub, nil
}

// bindingLabel is the exporter of RFC 9266, section 2.
const bindingLabel = "EXPORTER-Channel-Binding"

// ChannelBinding is a value that only the two ends of this very connection share.
func ChannelBinding(state tls.ConnectionState) ([32]byte, error) {
	b, err := state.ExportKeyingMaterial(bindingLabel, nil, 32)
	if err != nil {
		return [32]byte{}, fmt.Errorf("bind to the channel: %w", err)
	}
	return [32]byte(b), nil
}
