package logbench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"starling.dev/starling/crdt"
	"starling.dev/starling/gossip"
	"starling.dev/starling/internal/bench/durable"
	"starling.dev/starling/internal/bench/report"
	"starling.dev/starling/internal/bench/rig"
)

// missingEntries is how many entries one side lacks at least.
const missingEntries = 100_000

// healing connects two peers, of which one has a log that the other lacks, over real
// sockets, and waits until both hold the same. The pods in it are those of a third machine,
// so that neither has anything to write of them meanwhile.
func (b *bench) healing(ctx context.Context) (err error) {
	full := filepath.Join(b.dir, "full")
	filled, err := rig.Fill(ctx, full, 3, missingEntries/11+1, b.logger)
	if err != nil {
		return fmt.Errorf("fill a log: %w", err)
	}
	book := map[crdt.MachineID]*gossip.Transport{}
	var rigs []*rig.Rig
	for n, dir := range []string{full, filepath.Join(b.dir, "empty")} {
		r, err := rig.Open(rig.Config{Dir: dir, Machine: n + 2, Machines: 3, Logger: b.logger})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		if _, err := r.Listen(book); err != nil {
			return err
		}
		rigs = append(rigs, r)
	}
	for _, r := range rigs {
		r.Start()
		<-r.Ready
	}
	before, err := durable.OwnCPU()
	if err != nil {
		return err
	}
	start := time.Now()
	for _, r := range rigs {
		r.Connect(book)
	}
	if err := merged(ctx, rigs[1], filled.Heads); err != nil {
		return err
	}
	took := time.Since(start)
	used, err := durable.OwnCPU()
	if err != nil {
		return err
	}
	sent := book[rig.MachineID(rig.MachineName(2))].Stats().BytesOut + book[rig.MachineID(rig.MachineName(3))].Stats().BytesOut
	b.row(fmt.Sprintf("%d missing entries merge over real sockets", filled.Entries), "<= 10 s per 100,000",
		took.Round(10*time.Millisecond).String(), report.Of(took.Seconds(), 10))
	b.row("the same: CPU time of both peers", "", (used - before).Round(10*time.Millisecond).String(), "")
	b.row("bytes of frames, both ways, beside the missing bytes", "<= 1.2 x", fmt.Sprintf("%d of %d", sent, filled.Bytes), report.Of(float64(sent), float64(filled.Bytes)))
	return sameState(ctx, rigs[0], rigs[1])
}

// merged waits until a peer has all of the heads.
func merged(ctx context.Context, b *rig.Rig, heads crdt.Heads) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		turned := b.Loop.Turned()
		have, err := b.Heads(ctx)
		if err != nil {
			return err
		}
		if have.Dominates(heads) {
			return nil
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return fmt.Errorf("wait for the merge, with %v of %v: %w", have, heads, ctx.Err())
		}
	}
}

// sameState waits until both have equal heads, and compares what they made of them.
func sameState(ctx context.Context, a, b *rig.Rig) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		turnedA, turnedB := a.Loop.Turned(), b.Loop.Turned()
		headsA, stateA, err := a.Digest(ctx)
		if err != nil {
			return err
		}
		headsB, stateB, err := b.Digest(ctx)
		if err != nil {
			return err
		}
		if headsA == headsB {
			if stateA != stateB {
				return errors.New("equal heads, but unequal states")
			}
			return nil
		}
		select { // each still writes what it finds out about itself
		case <-turnedA:
		case <-turnedB:
		case <-ctx.Done():
			return fmt.Errorf("wait for equal heads: %w", ctx.Err())
		}
	}
}
