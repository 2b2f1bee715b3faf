package daemon

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/gossip"
	"starling.dev/starling/identity"
	"starling.dev/starling/peer"
)

// maxView bounds the members that this peer keeps connections to.
const maxView = 16

func (d *Daemon) buildGossip(name string) (err error) {
	log := d.cfg.Logger.With("part", "gossip")
	sponsor := gossip.Sponsor{
		Hello: d.hello, Redeem: d.redeem, Log: log,
		Peers: func(local netip.Addr) []identity.Peer { return d.membership.Peers(local) },
		Where: func(id crdt.MachineID) []string { return d.membership.StreamAddrs(id) },
	}
	d.transport, err = gossip.NewTransport(gossip.TransportConfig{
		Key: d.home.key, Trust: trust{d.verifier}, Bind: netip.AddrPortFrom(d.cfg.Bind, d.cfg.StreamPort),
		Lookup:    func(id crdt.MachineID) []string { return d.membership.StreamAddrs(id) },
		Handler:   func(from crdt.MachineID, frame []byte) { d.loop.Receive(context.Background(), from, frame) },
		OnPeer:    func(id crdt.MachineID, up bool) { d.post(peer.Connection{Machine: id, Up: up}) },
		OnReached: func(local, remote netip.Addr) { d.membership.Reached(local, remote) },
		Join:      sponsor.Serve, Removed: d.expelled, Farewell: d.farewell, Log: log,
	})
	if err != nil {
		return err
	}
	d.membership, err = gossip.NewMembership(gossip.MembershipConfig{
		Cluster: d.home.log.Cluster().String(), Keys: d.home.facts.GossipKeys,
		Self:      gossip.Self{ID: d.home.id(), Name: name, StreamPort: d.cfg.StreamPort, Level: peer.Level, Version: d.cfg.Version},
		Bind:      netip.AddrPortFrom(d.cfg.Bind, d.cfg.GossipPort),
		Advertise: d.cfg.Advertise, Known: d.knownPeers(), Removed: d.removed, OnMember: d.member, OnPeers: d.savePeers, Log: log,
	})
	d.add(d.transport, d.membership, named("addresses", d.watchAddresses), named("address", d.followAddress), named("trust", d.followTrust), named("view", d.rotateView))
	return err
}

func (d *Daemon) post(e peer.Event) { d.loop.Post(context.Background(), e) }

// trust answers from the authorisation log's present meaning.
type trust struct{ v *peer.Verifier }

func (t trust) Admitted(pub ed25519.PublicKey) (identity.Machine, bool) {
	return t.v.Snapshot().Admitted(pub)
}

func (d *Daemon) removed(id crdt.MachineID) bool {
	m, known := d.verifier.Snapshot().ByID(id)
	return known && m.Removed
}

// farewell is the frame that proves to a machine that it was removed.
func (d *Daemon) farewell(ctx context.Context, id crdt.MachineID) []byte {
	var records [][]byte
	err := d.loop.Query(ctx, func(c *peer.Core) { records = c.AuthLog().Farewell(id) })
	if err != nil {
		d.cfg.Logger.Debug("a machine that was removed was not told", "id", id, "error", err)
		return nil
	}
	if len(records) == 0 {
		return nil
	}
	return peer.EncodeMessage(peer.AuthRecords{Records: records})
}

// expelled reports whether another machine took a machine's authority away: it may not know.
func (d *Daemon) expelled(id crdt.MachineID) bool {
	m, _ := d.verifier.Snapshot().ByID(id)
	return expelled(m)
}

func expelled(m identity.Machine) bool { return m.Removed && m.Remover != m.ID }

// followTrust closes the connections of machines that lost their admission, until another
// machine takes this one's away. A peer that leaves goes on, to tell the others, until a
// person ends it.
func (d *Daemon) followTrust(ctx context.Context) error {
	var last *identity.Snapshot
	for {
		turned := d.loop.Turned()
		if now := d.verifier.Snapshot(); now != last {
			last = now
			if m, _ := now.ByID(d.home.id()); expelled(m) {
				return removedError(m)
			}
			d.transport.Recheck()
			d.membership.Recheck()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-turned:
		}
	}
}

// member tells the core who is alive, and the transport whom to stay connected to.
func (d *Daemon) member(m gossip.Member) {
	if m.ID == d.home.id() {
		return
	}
	d.post(peer.Membership{Machine: m.ID, Alive: m.Status == gossip.Alive})
	d.follower.nudge()
	d.choosePeers()
}

// viewTurn is how long a view of a large cluster stays as it is.
const viewTurn = 5 * time.Minute

func (d *Daemon) choosePeers() {
	turn := uint64(time.Now().Unix()) / uint64(viewTurn.Seconds())
	d.transport.SetPeers(gossip.View(d.home.id(), d.membership.Members(), maxView, turn))
}

// rotateView chooses the connections anew at each turn.
func (d *Daemon) rotateView(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(viewTurn):
			d.choosePeers()
		}
	}
}

func (d *Daemon) peersFile() string { return filepath.Join(d.cfg.Data, "peers.json") }

// knownPeers is the peer table of the last run.
func (d *Daemon) knownPeers() []gossip.Known {
	raw, err := os.ReadFile(d.peersFile())
	if err != nil {
		return d.home.facts.Known
	}
	var known []gossip.Known
	if err := json.Unmarshal(raw, &known); err != nil {
		d.cfg.Logger.Warn("the peer table is damaged; the one from joining is used", "file", d.peersFile(), "error", err)
		return d.home.facts.Known
	}
	return known
}

func (d *Daemon) savePeers(known []gossip.Known) {
	raw, err := json.Marshal(known)
	if err == nil {
		err = replaceFile(d.peersFile(), raw)
	}
	if err != nil {
		d.cfg.Logger.Warn("can't save the peer table", "error", err)
	}
}

// replaceFile writes a file so that a crash leaves the old or the new one.
func replaceFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.Write(data); err != nil {
		f.Close()
		return err
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// hello is what this machine shows to a newcomer.
func (d *Daemon) hello() (identity.Hello, error) {
	var hello identity.Hello
	var err error
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if qerr := d.loop.Query(ctx, func(c *peer.Core) { hello, err = c.AuthLog().Hello(d.home.public()) }); qerr != nil {
		return hello, qerr
	}
	return hello, err
}

// redeem admits a newcomer. It waits until the admission is on this disk.
func (d *Daemon) redeem(ctx context.Context, r identity.Redemption) (identity.JoinReply, error) {
	if r.Request.Replace {
		cut, err := d.replaceable(ctx, r.Request.Name)
		if err != nil {
			return identity.JoinReply{}, err
		}
		r.Replace = cut
	}
	var reply identity.JoinReply
	err := d.loop.Manage(ctx, func(log *identity.Log, now time.Time) error {
		r.Now = now
		if _, err := log.Redeem(d.home.key, r); err != nil {
			return err
		}
		reply = log.Welcome(nil, d.home.facts.GossipKeys[0])
		return nil
	})
	if err != nil {
		return identity.JoinReply{}, err
	}
	d.cfg.Logger.Info("a machine joined", "machine", r.Request.Name)
	d.beginReady(ctx, r.Request.Name)
	return reply, nil
}

// beginReady takes back that an earlier machine of this name was drained, as one that leaves
// in good order is: whoever lets a machine join wants it to take pods.
func (d *Daemon) beginReady(ctx context.Context, name string) {
	key := api.Key{Kind: "Machine", Name: name}
	drained := false
	err := d.loop.Query(ctx, func(c *peer.Core) {
		seen, known := c.See(key)
		drained = known && seen.Object.Fields.Has("lifecycle.target")
	})
	if err == nil && drained {
		var a peer.Answer
		a, err = d.loop.Write(ctx, peer.Write{
			Author: "user:root", Message: "joined",
			Edits: []peer.Edit{{Kind: peer.EditPatch, Key: key, Unset: []string{"lifecycle.target"}}},
		})
		if err == nil && a.Err != nil {
			err = a.Err
		}
	}
	if err != nil {
		d.cfg.Logger.Warn("the machine is still drained; `peer machine resume` ends that", "machine", name, "error", err)
	}
}

// replaceable tells how much of a silent machine's logs still counts.
func (d *Daemon) replaceable(ctx context.Context, name string) (*identity.Replacement, error) {
	var cut *identity.Replacement
	var why error
	err := d.loop.Query(ctx, func(c *peer.Core) {
		id, ok := c.IDOf(name)
		if !ok {
			return // an ordinary admission; the log says what is wrong
		}
		for _, m := range c.Members() {
			if m.ID == id && m.Alive {
				why = api.Errorf(api.NameTaken, "machine %q is alive, as far as %s can tell; only a silent machine can be replaced: stop it, and wait until `peer machine ls` calls it silent", name, c.Self().Name)
				return
			}
		}
		cut = &identity.Replacement{Cut: c.CutOf(id)}
	})
	if err == nil {
		err = why
	}
	return cut, err
}
