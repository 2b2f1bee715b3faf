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
	"starling.dev/starling/client"
	"starling.dev/starling/internal/bench/durable"
	"starling.dev/starling/internal/bench/report"
	"starling.dev/starling/internal/bench/rig"
	"starling.dev/starling/peer"
)

// clients, valueSize, rounds and lasting are the terms of the comparisons with etcd.
const (
	clients   = 64
	valueSize = 300
	rounds    = 3
	lasting   = 3 * time.Second
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

func (b *bench) writes(ctx context.Context) (err error) {
	r, err := b.alone("writes")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	e, err := b.etcd(ctx, "writes-etcd")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	var names atomic.Uint64
	value := api.Str(strings.Repeat("v", valueSize))
	ours := func(ctx context.Context, _ int) error {
		a, err := r.Loop.Write(ctx, peer.Write{Author: "user:bench", Edits: []peer.Edit{{
			Kind: peer.EditApply, Key: api.Key{Kind: "Allow", Namespace: "default", Name: fmt.Sprintf("a%d", names.Add(1))},
			Fields: api.Fields{"spec.to.labels.app": value},
		}}})
		if err == nil && a.Err != nil {
			err = a.Err
		}
		return err
	}
	c := durable.Comparison{Clients: clients, Rounds: rounds, Lasting: lasting, Out: os.Stderr}
	ratios, err := c.Compare(ctx, durable.Side{Name: "peer", Write: ours, CPU: durable.OwnCPU}, durable.Side{Name: "etcd", Write: e.Put, CPU: e.CPU})
	if err != nil {
		return fmt.Errorf("compare writes: %w", err)
	}
	b.row("durable writes, 64 clients, 300 B: writes/s beside etcd", ">= 2 x", "", fmt.Sprintf("%.2f x", ratios.Rate))
	b.row("the same: p99 latency beside etcd", "<= 1 x", "", fmt.Sprintf("%.2f x", ratios.P99))
	return nil
}

// reads compares reads of one object of a thousand, by 64 clients, through the Unix
// socket and the generated client, with etcd's linearizable reads.
func (b *bench) reads(ctx context.Context) (err error) {
	r, err := b.alone("reads")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	const objects = 1000
	if err := r.Fill(ctx, objects); err != nil {
		return err
	}
	socket := filepath.Join(b.dir, "api.sock")
	if err := r.Serve(socket); err != nil {
		return err
	}
	e, err := b.etcd(ctx, "reads-etcd")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	conns := make([]*client.Client, clients)
	for i := range conns {
		conns[i] = client.New(socket)
		defer conns[i].Close()
	}
	ours := func(ctx context.Context, i int) error {
		_, err := conns[i].Get(ctx, &apiv1.GetRequest{Kind: "Allow", Namespace: "default", Name: rig.Name(i)})
		return err
	}
	c := durable.Comparison{Clients: clients, Rounds: rounds, Lasting: lasting, Out: os.Stderr}
	ratios, err := c.Compare(ctx, durable.Side{Name: "peer read", Write: ours, CPU: durable.OwnCPU}, durable.Side{Name: "etcd read", Write: e.Range, CPU: e.CPU})
	if err != nil {
		return fmt.Errorf("compare reads: %w", err)
	}
	b.row("local reads of an object through the API beside etcd's linearizable reads", ">= 5 x", "", fmt.Sprintf("%.2f x", ratios.Rate))
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
