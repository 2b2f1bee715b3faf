package daemon

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/gossip"
	"starling.dev/starling/identity"
	"starling.dev/starling/netstack/linux"
	"starling.dev/starling/peer"
	"starling.dev/starling/store"
)

// Keys of the store's private key space that the daemon owns.
const (
	keyGenesis = "daemon/genesis"
	keyHome    = "daemon/home"
	keyTunnels = "daemon/wireguard" // the device's private key
)

// home is an opened data directory: the store, the machine's key, and the cluster that
// it belongs to.
type home struct {
	cfg   Config
	store *store.Store
	key   ed25519.PrivateKey
	facts homeFacts
	log   *identity.Log // as it was on disk when the home was opened
}

// homeFacts is what a machine must remember beside the log.
type homeFacts struct {
	Name       string // as admitted; the log may know a newer one
	GossipKeys [][]byte
	Known      []gossip.Known
	Advertise  string // the source address towards the machine that it joined through
	WireGuard  bool   // the machine is to have a WireGuard device, unless its spec says otherwise
}

func (c Config) storeConfig() store.Config {
	return store.Config{Dir: filepath.Join(c.Data, "store"), Logger: c.Logger, MachineID: c.MachineID}
}

// openHome opens the data directory. member is false if it belongs to no cluster yet.
func openHome(cfg Config) (h *home, member bool, err error) {
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return nil, false, fmt.Errorf("make the data directory: %w", err)
	}
	s, err := store.Open(cfg.storeConfig())
	if err != nil {
		return nil, false, err
	}
	h = &home{cfg: cfg, store: s}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if h.key, err = identity.LoadOrMakeKey(filepath.Join(cfg.Data, "machine.key"), rand.Reader); err != nil {
		return nil, false, err
	}
	genesis, err := s.Get(keyGenesis)
	if err != nil || genesis == nil {
		return h, false, err
	}
	return h, true, h.load(genesis)
}

func (h *home) load(raw []byte) error {
	g, err := identity.ParseGenesis(raw)
	if err != nil {
		return fmt.Errorf("read the cluster's genesis: %w", err)
	}
	facts, err := h.store.Get(keyHome)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(facts, &h.facts); err != nil {
		return fmt.Errorf("read what this machine remembers of its cluster: %w", err)
	}
	h.log, err = h.readLog(g)
	return err
}

// readLog reads the authorisation log anew.
func (h *home) readLog(g identity.Genesis) (*identity.Log, error) {
	writes, err := h.store.Local(peer.AuthPrefix)
	if err != nil {
		return nil, err
	}
	var records [][]byte
	for _, w := range writes {
		records = append(records, w.Value)
	}
	log, err := identity.LoadLog(g, records)
	if err != nil {
		return nil, fmt.Errorf("read the authorisation log: %w", err)
	}
	return log, nil
}

// found begins a cluster of this one machine.
func (h *home) found() error {
	root, err := identity.LoadOrMakeKey(filepath.Join(h.cfg.Data, "root.key"), rand.Reader)
	if err != nil {
		return err
	}
	network := h.cfg.Network
	if linux.Mode(network) == linux.Routed {
		network = "" // the default
	}
	h.log, err = identity.Begin(identity.BeginConfig{
		Name: h.cfg.Cluster, Network: network, MachineName: h.cfg.Name, RootKey: root, MachineKey: h.key, Clock: identity.ClockAt(time.Now()),
	}, rand.Reader)
	if err != nil {
		return err
	}
	gossipKey := make([]byte, 32)
	if _, err := rand.Read(gossipKey); err != nil {
		return fmt.Errorf("draw the gossip key: %w", err)
	}
	h.facts = homeFacts{Name: h.cfg.Name, GossipKeys: [][]byte{gossipKey}}
	return h.save()
}

// adopt makes the directory that of a machine which was just admitted.
func (h *home) adopt(r gossip.JoinResult) error {
	h.log = r.Log
	h.facts = homeFacts{Name: h.cfg.Name, GossipKeys: [][]byte{r.GossipKey}, Known: r.Known, Advertise: r.LocalAddr.String()}
	return h.save()
}

// save makes membership durable, all of it or nothing.
func (h *home) save() error {
	facts, err := json.Marshal(h.facts)
	if err != nil {
		return fmt.Errorf("write what this machine remembers of its cluster: %w", err)
	}
	c := crdt.Commit{Local: []crdt.LocalWrite{{Key: keyGenesis, Value: h.log.Genesis().Bytes()}, {Key: keyHome, Value: facts}}}
	for i, r := range h.log.Since(0) {
		c.Local = append(c.Local, crdt.LocalWrite{Key: peer.AuthKey(i), Value: r})
	}
	return h.store.Commit(c)
}

// name is what the log calls this machine now.
func (h *home) name() (string, error) {
	m, ok := h.log.Snapshot().ByID(h.id())
	switch {
	case !ok:
		return "", api.Errorf(api.Internal, "the authorisation log in %s does not know this machine; join again after `peer leave --purge`", h.cfg.Data)
	case m.Removed:
		return "", removedError(m)
	}
	return m.Name, nil
}

func (h *home) public() ed25519.PublicKey { return h.key.Public().(ed25519.PublicKey) }

func (h *home) id() crdt.MachineID { return identity.IDOf(h.public()) }

// reopen opens the store again after a failed commit.
func (h *home) reopen() error {
	if err := h.store.Close(); err != nil && !errors.Is(err, store.ErrBroken) {
		h.cfg.Logger.Warn("the store did not close cleanly", "error", err)
	}
	s, err := store.Open(h.cfg.storeConfig())
	if err != nil {
		return err
	}
	h.store = s
	return nil
}
