package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"starling.dev/starling/api"
	"starling.dev/starling/gossip"
	"starling.dev/starling/identity"
	"starling.dev/starling/netstack/clat"
	"starling.dev/starling/netstack/wireguard"
)

// JoinRequest is what a person types on a machine that is to join.
type JoinRequest struct {
	Addr    string // optional: the token holds its sponsor's addresses
	Token   string
	Replace bool // take the place of the dead machine of the same name
}

// Join makes this machine a member of the token's cluster and remembers that on disk.
// It returns a warning for the person, which may be empty.
func Join(ctx context.Context, cfg Config, req JoinRequest) (warning string, err error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return "", err
	}
	token, err := identity.ParseToken(req.Token)
	if err != nil {
		return "", err
	}
	h, member, err := openHome(cfg)
	if err != nil {
		return "", storeError(cfg, err)
	}
	defer func() { err = errors.Join(err, h.store.Close()) }()
	if member {
		name, _ := h.name()
		return "", api.Errorf(api.AlreadyExists, "%s belongs to cluster %s already (as machine %q); run `peer leave --purge` first, or name another --data directory", cfg.Data, h.log.Cluster(), name)
	}
	result, err := gossip.Join(ctx, gossip.JoinConfig{Addr: req.Addr, Token: token, Key: h.key, Name: cfg.Name, Replace: req.Replace})
	if err != nil {
		return "", err
	}
	if err := h.adopt(result); err != nil {
		return "", fmt.Errorf("this machine was admitted, but can't remember it: %w; mend that and run the same command again", err)
	}
	return result.Warning, nil
}

// Purge removes everything that a peer keeps on this machine. The peer must not run.
func Purge(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return err
	}
	if _, err := os.Stat(cfg.Data); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	h, member, err := openHome(cfg)
	if err != nil {
		return storeError(cfg, err)
	}
	if member {
		d := &Daemon{cfg: cfg, home: h}
		if err := d.purge(ctx); err != nil {
			return errors.Join(err, h.store.Close())
		}
	}
	if err := h.store.Close(); err != nil {
		return err
	}
	for _, name := range []string{"store", "machine.key", "root.key", "peers.json", "pods", "volumes", "containerd"} {
		if err := os.RemoveAll(filepath.Join(cfg.Data, name)); err != nil {
			return fmt.Errorf("remove what the peer kept: %w", err)
		}
	}
	return nil
}

// purge takes containers and networks down.
func (d *Daemon) purge(ctx context.Context) error {
	if err := d.buildNetwork(ctx); err != nil {
		return err
	}
	if err := errors.Join(d.network.Purge(ctx), clat.Purge(clat.Config{}), wireguard.Purge(), d.purgeServices()); err != nil {
		return fmt.Errorf("remove the pods' networks: %w", err)
	}
	if err := d.buildRuntime(ctx); err != nil {
		d.cfg.Logger.Warn("containers are not removed", "error", err)
		return nil
	}
	return d.runtime.Purge(ctx)
}
