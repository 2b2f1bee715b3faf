package gossip

import (
	"crypto/tls"
	"fmt"

	"starling.dev/starling/identity"
)

// secrets are the TLS configurations of a transport. What a connection is for is told
// apart by ALPN on the one port.
type secrets struct {
	server *tls.Config
	client map[string]*tls.Config // by protocol
}

func newSecrets(cfg TransportConfig) (secrets, error) {
	server, err := identity.ServerConfig(cfg.Key, cfg.Trust, identity.ALPNFrames, identity.ALPNAPI, identity.ALPNJoin)
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
