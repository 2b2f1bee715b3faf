package gossip

import (
	"strings"
	"testing"
)

// FuzzParseMember: what gossip tells of a member, by anybody who has the gossip key.
func FuzzParseMember(f *testing.F) {
	f.Add(strings.Repeat("a1", 16), "m1", "192.0.2.1:7946", "7947", "1", "v1")
	f.Add(strings.Repeat("a1", 16), "m1", "[::ffff:192.0.2.1]:7946", "0", "4294967295", "")
	f.Fuzz(func(t *testing.T, node, name, addr, streams, level, version string) {
		m, err := parseMember(node, map[string]string{tagName: name, tagAddr: addr, tagStreams: streams, tagLevel: level, tagVersion: version})
		if err != nil {
			return
		}
		if m.ID.String() == "" || !m.Addr.IsValid() || m.Addr.Port() == 0 || m.Addr.Addr().Is4In6() || len(m.Name) > maxNameBytes {
			t.Fatalf("taken: %+v", m)
		}
	})
}
