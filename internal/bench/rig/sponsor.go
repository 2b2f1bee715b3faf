package rig

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"net/netip"
	"time"

	"starling.dev/starling/crdt"
	"starling.dev/starling/gossip"
	"starling.dev/starling/identity"
	"starling.dev/starling/peer"
)

// KeyOf is the key of a machine of that name, whether it belongs to the cluster or not.
func KeyOf(name string) ed25519.PrivateKey { return keyOf(name) }

// sponsor lets newcomers in, as a daemon does.
func (r *Rig) sponsor(book map[crdt.MachineID]*gossip.Transport) gossip.Sponsor {
	return gossip.Sponsor{
		Hello: r.hello, Redeem: r.redeem, Log: r.cfg.Logger,
		Peers: func(local netip.Addr) []identity.Peer {
			return []identity.Peer{{Machine: MachineID(r.name), Address: netip.AddrPortFrom(local, 1).String()}}
		},
		Where: func(id crdt.MachineID) []string { return addressOf(book, id) },
	}
}

func addressOf(book map[crdt.MachineID]*gossip.Transport, id crdt.MachineID) []string {
	if other, ok := book[id]; ok {
		return []string{fmt.Sprintf("127.0.0.1:%d", other.Port())}
	}
	return nil
}

func (r *Rig) hello() (hello identity.Hello, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if asked := r.Loop.Query(ctx, func(c *peer.Core) { hello, err = c.AuthLog().Hello(public(r.name)) }); asked != nil {
		return hello, asked
	}
	return hello, err
}

// redeem waits until the admission is on the rig's disk.
func (r *Rig) redeem(ctx context.Context, redemption identity.Redemption) (reply identity.JoinReply, err error) {
	err = r.Loop.Manage(ctx, func(log *identity.Log, now time.Time) error {
		redemption.Now = now
		if _, err := log.Redeem(keyOf(r.name), redemption); err != nil {
			return err
		}
		reply = log.Welcome(nil, make([]byte, 32))
		return nil
	})
	return reply, err
}
