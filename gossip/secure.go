package gossip

import (
	"crypto/ed25519"
	"crypto/tls"
	"fmt"

	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
)

// secrets are the TLS configurations of a transport. What a connection is for is told
// apart by ALPN on the one port.
type secrets struct {
	server *tls.Config
	client map[string]*tls.Config // by protocol
}

func newSecrets(cfg TransportConfig) (secrets, error) {
	server, err := identity.ServerConfig(cfg.Key, greeted{cfg.Trust, cfg.Removed}, identity.ALPNFrames, identity.ALPNAPI, identity.ALPNJoin)
	if err != nil {
		return secrets{}, fmt.Errorf("configure the transport: %w", err)
	}
	s := secrets{server: server, client: map[string]*tls.Config{}}
	for _, proto := range []string{identity.ALPNFrames, identity.ALPNAPI} {
		if s.client[proto], err = identity.ClientConfig(cfg.Key, cfg.Trust, proto); err != nil {
			return secrets{}, fmt.Errorf("configure the transport: %w", err)
		}
	}
	return s, nil
}

// greeted lets into the handshake, besides members, who was one: to be told so, and no more.
type greeted struct {
	identity.Trust
	removed func(crdt.MachineID) bool // nil: nobody was
}

// Admitted implements identity.Trust.
func (g greeted) Admitted(pub ed25519.PublicKey) (identity.Machine, bool) {
	m, ok := g.Trust.Admitted(pub)
	return m, ok || g.removed != nil && g.removed(identity.IDOf(pub))
}
