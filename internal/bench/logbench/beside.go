package logbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/internal/bench/durable"
	"starling.dev/starling/internal/bench/report"
	"starling.dev/starling/internal/bench/rig"
	"starling.dev/starling/peer"
)

// clients, valueSize, rounds and lasting are the terms of the comparisons with etcd.
const (
	clients   = 64
	valueSize = 300
	rounds    = 9
	lasting   = time.Second
)

// alone opens and starts a rig that is a cluster of its own.
func (b *bench) alone(name string) (*rig.Rig, error) {
	r, err := rig.Open(rig.Config{Dir: filepath.Join(b.dir, name), Machine: 1, Machines: 1, Logger: b.logger})
	if err == nil {
		r.Start()
	}
	return r, err
}

func (b *bench) etcd(ctx context.Context, name string) (*durable.Etcd, error) {
	dir := filepath.Join(b.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make etcd's directory: %w", err)
	}
	return durable.StartEtcd(ctx, dir, clients, valueSize)
}

// writes compares durable writes of new objects by 64 clients with a connection each, through
// the Unix socket, with etcd's puts of new keys.
func (b *bench) writes(ctx context.Context) (err error) {
	p, err := b.startPeer("writes", 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	e, err := b.etcd(ctx, "writes-etcd")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	var names atomic.Uint64
	value := api.Str(strings.Repeat("v", valueSize))
	ours := func(ctx context.Context, i int) error {
		_, err := p.conns[i].Apply(ctx, &apiv1.ApplyRequest{Author: "bench", Edits: []*apiv1.Edit{{
			Kind: apiv1.EditKind_EDIT_KIND_APPLY, Key: &apiv1.Key{Kind: "Allow", Namespace: "default", Name: fmt.Sprintf("a%d", names.Add(1))},
			Fields: map[string]string{"spec.to.labels.app": value},
		}}})
		return err
	}
	ratios, err := comparison.Compare(ctx, durable.Side{Name: "peer", Write: ours, CPU: p.CPU}, durable.Side{Name: "etcd", Write: e.Put, CPU: e.CPU})
	if err != nil {
		return fmt.Errorf("compare writes: %w", err)
	}
	b.row("durable writes through the API, 64 clients, 300 B: writes/s beside etcd", ">= 2 x", "", fmt.Sprintf("%.2f x", ratios.Rate))
	b.row("the same: p99 latency beside etcd", "<= 1 x", "", fmt.Sprintf("%.2f x", ratios.P99))
	b.row("the same: CPU time of a write, clients included, beside etcd", "", "", fmt.Sprintf("%.2f x", ratios.CPU))
	return nil
}

// comparison is how both sides are run, in turn.
var comparison = durable.Comparison{Clients: clients, Rounds: rounds, Lasting: lasting, Out: os.Stderr}

// reads compares reads of single objects of a thousand, by 64 clients with a connection
// each, through the Unix socket, with etcd's linearizable reads of one value of the client's
// own. Nothing is written meanwhile.
func (b *bench) reads(ctx context.Context) (err error) {
	const objects = 1000
	p, err := b.startPeer("reads", objects)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	e, err := b.etcd(ctx, "reads-etcd")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	var turn [clients]int // of each client
	ours := func(ctx context.Context, i int) error {
		turn[i]++
		_, err := p.conns[i].Get(ctx, &apiv1.GetRequest{Kind: "Allow", Namespace: "default", Name: rig.Name((i + 61*turn[i]) % objects)})
		return err
	}
	ratios, err := comparison.Compare(ctx, durable.Side{Name: "peer read", Write: ours, CPU: p.CPU}, durable.Side{Name: "etcd read", Write: e.Range, CPU: e.CPU})
	if err != nil {
		return fmt.Errorf("compare reads: %w", err)
	}
	b.row("local reads of an object through the API beside etcd's linearizable reads", ">= 5 x", "", fmt.Sprintf("%.2f x", ratios.Rate))
	b.row("the same: CPU time of a read, clients included, beside etcd", "", "", fmt.Sprintf("%.2f x", ratios.CPU))
	return nil
}

// bytes changes one field of a pod that is stopped, so that nothing but the change is
// written, alone and as one of many in a turn.
func (b *bench) bytes(ctx context.Context) (err error) {
	r, err := b.alone("bytes")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	key := api.Key{Kind: "Pod", Namespace: "default", Name: "web"}
	fields := rig.PodFields()
	fields["lifecycle.target"] = `"stopped"`
	apply := func(message, greeting string) error {
		fields["spec.containers.app.env.GREETING"] = api.Str(greeting)
		a, err := r.Loop.Write(ctx, peer.Write{Author: "user:alice", Message: message, Edits: []peer.Edit{{Kind: peer.EditApply, Key: key, Fields: fields}}})
		if err == nil && a.Err != nil {
			err = a.Err
		}
		return err
	}
	if err := apply("", "hello"); err != nil {
		return err
	}
	before, err := r.Rested(ctx)
	if err != nil {
		return err
	}
	const changes = 20
	for i := range changes {
		if err := apply("", fmt.Sprintf("hello-%d", i)); err != nil {
			return err
		}
	}
	after, err := r.Stored()
	if err != nil {
		return err
	}
	each := float64(after-before) / changes
	b.row("stored bytes of a one-field change: key, checksum, batch, signatures, change set", "<= 400 B", fmt.Sprintf("%.0f B", each), report.Of(each, 400))
	return nil
}
