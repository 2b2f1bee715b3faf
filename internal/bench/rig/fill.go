package rig

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/peer"
	"starling.dev/starling/store"
)

// templates is how many pods are really brought up; the others are copies of them.
const templates = 50

// perBatch is how many entries share a signature in what Fill writes. A pod that starts
// on an idle machine writes most of its entries in batches of one or two, a busy
// machine in batches of hundreds.
const perBatch = 4

// fillCommit is how many batches are committed at once.
const fillCommit = 500

// PodFields is the spec of the pods that rigs run.
func PodFields() api.Fields {
	return api.Fields{
		"spec.containers.app.image": `"localhost/hello:1"`, "spec.containers.app.args": `["--listen","[::]:8080"]`,
		"spec.containers.app.env.GREETING": `"hello"`, "spec.containers.app.ports.http": "8080",
	}
}

// Filled tells what Fill wrote.
type Filled struct {
	Objects, Entries int
	Bytes            int // of the encoded batches
	Heads            crdt.Heads
}

// Fill writes into a directory's store what the first of so many machines would have
// logged to bring up so many pods: 50 pods are run by a real peer, the others
// copied from them with names, identities and signatures of their own.
func Fill(ctx context.Context, dir string, machines, pods int, logger *slog.Logger) (Filled, error) {
	changes, err := template(ctx, dir, machines, logger)
	if err != nil {
		return Filled{}, err
	}
	s, err := store.Open(store.Config{Dir: dir, Logger: logger})
	if err != nil {
		return Filled{}, err
	}
	f := filler{store: s, key: crdt.Ed25519Signer(keyOf(MachineName(1)))}
	f.birth = crdt.Birth{PublicKey: public(MachineName(1)), Nonce: 42}
	f.actor = f.birth.ActorID()
	err = f.all(changes, pods)
	f.done.Heads = crdt.Heads{f.actor: f.head}
	return f.done, errors.Join(err, s.Close())
}

// template runs a few pods and returns what was logged, by object and in order.
func template(ctx context.Context, dir string, machines int, logger *slog.Logger) (map[crdt.Ref][]crdt.Change, error) {
	r, err := Open(Config{Dir: filepath.Join(dir, "template"), Machine: 1, Machines: machines, Logger: logger})
	if err != nil {
		return nil, err
	}
	r.Start()
	if err = r.pretendSynced(ctx); err == nil {
		err = r.bringUp(ctx, templates)
	}
	changes := map[crdt.Ref][]crdt.Change{}
	_, readErr := r.Store.Recover(func(b crdt.Batch) error {
		for _, raw := range b.Changes {
			c, err := crdt.DecodeChange(raw)
			if err != nil {
				return err
			}
			changes[c.Object] = append(changes[c.Object], c)
		}
		return nil
	})
	return changes, errors.Join(err, readErr, r.Close())
}

// pretendSynced has the peer believe that another machine holds what it holds itself:
// until then a peer of a larger cluster does not describe itself.
func (r *Rig) pretendSynced(ctx context.Context) error {
	if r.cfg.Machines == 1 {
		return nil
	}
	var digest peer.Digest
	if err := r.Loop.Query(ctx, func(c *peer.Core) { digest = c.Digest() }); err != nil {
		return err
	}
	other := MachineName(1 + r.cfg.Machine%r.cfg.Machines)
	r.Loop.Post(ctx, peer.Received{From: MachineID(other), Message: digest})
	return nil
}

// bringUp writes pods and waits until all of them are ready.
func (r *Rig) bringUp(ctx context.Context, pods int) error {
	var edits []peer.Edit
	for i := range pods {
		edits = append(edits, peer.Edit{Kind: peer.EditApply, Key: podKey(i), Fields: PodFields()})
	}
	if a, err := r.Loop.Write(ctx, peer.Write{Author: "user:alice", Edits: edits}); err != nil || a.Err != nil {
		return fmt.Errorf("write the pods: %w", errors.Join(err, orNil(a.Err)))
	}
	for {
		turned := r.Loop.Turned()
		ready, example := 0, ""
		err := r.Loop.Query(ctx, func(c *peer.Core) {
			for _, s := range c.List("Pod") {
				if s.Object.Status()["status.ready"] == "true" {
					ready++
				} else {
					example = fmt.Sprint(s.Object.Key, s.Eval.Steps)
				}
			}
		})
		if err != nil || ready == pods {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d pods are ready; %s: %w", ready, pods, example, ctx.Err())
		case <-turned:
		case <-time.After(time.Second):
		}
	}
}

func orNil(err *api.Error) error {
	if err == nil {
		return nil
	}
	return err
}

func podKey(i int) api.Key {
	return api.Key{Kind: "Pod", Namespace: "default", Name: fmt.Sprintf("web-%06d", i)}
}

// filler appends to the log of one actor.
type filler struct {
	store *store.Store
	key   crdt.Signer
	actor crdt.ActorID
	birth crdt.Birth
	head  crdt.Head
	turn  [][]byte
	batch []crdt.Batch
	nonce uint64
	done  Filled
}

func (f *filler) all(templates map[crdt.Ref][]crdt.Change, pods int) error {
	var kinds [][]crdt.Change
	for ref, changes := range templates {
		if ref.Kind == "Pod" {
			kinds = append(kinds, changes)
			continue
		}
		f.copy(changes, ref) // the machine's own object: its identity is another in another log
	}
	if len(kinds) == 0 {
		return errors.New("no pod was brought up to copy from")
	}
	for i := range pods {
		f.copy(kinds[i%len(kinds)], crdt.Ref(podKey(i)))
		if err := f.commit(fillCommit); err != nil {
			return err
		}
	}
	f.done.Objects = pods
	f.seal()
	return f.commit(1)
}

// copy writes the changes of one object as those of another.
func (f *filler) copy(changes []crdt.Change, ref crdt.Ref) {
	var created crdt.ID
	for _, c := range changes {
		f.nonce++
		c.Object, c.Nonce = ref, f.nonce
		if !c.Incarnation.IsZero() {
			c.Incarnation = created
		}
		raw := c.Encode()
		if c.Incarnation.IsZero() {
			created = crdt.ChangeID(f.actor, raw)
		}
		f.append(raw)
	}
}

func (f *filler) append(raw []byte) {
	f.turn = append(f.turn, raw)
	if len(f.turn) == perBatch {
		f.seal()
	}
}

func (f *filler) seal() {
	if len(f.turn) == 0 {
		return
	}
	b := crdt.Batch{Actor: f.actor, First: f.head.Seq + 1, Prev: f.head.Hash, Changes: f.turn}
	if b.First == 1 {
		b.Birth = &f.birth
	}
	b = crdt.SignBatch(b, f.key)
	f.head = b.Head()
	f.done.Entries += len(f.turn)
	f.done.Bytes += len(b.Encode())
	f.batch, f.turn = append(f.batch, b), nil
}

func (f *filler) commit(atLeast int) error {
	if len(f.batch) < atLeast {
		return nil
	}
	err := f.store.Commit(crdt.Commit{Batches: f.batch})
	f.batch = nil
	return err
}
