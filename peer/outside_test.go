package peer

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"starling.dev/starling/crdt"
	"starling.dev/starling/loops"
)

// fullDisk has no room for a while.
type fullDisk struct {
	noDisk
	full *bool
}

func (d fullDisk) Commit(crdt.Commit) error {
	if *d.full {
		return errors.New("no space left on device")
	}
	return nil
}

// A core that takes another's place, since the disk failed, knows who is there and how
// the pods are: nobody tells it again.
func TestOutsideOutlivesACore(t *testing.T) {
	c := newCluster(t, 3)
	c.run(3 * time.Second)
	c.write(1, pod(t, "web", "  containers: {app: {image: 'localhost/a:1', probes: {readiness: {tcp: 80}}}}\n"))
	home := c.cores[c.status(1, "web").String("status.machine")[1]-'1']
	others := c.cores[home.i%3].core.self.ID
	full, opened := false, 0
	synctest.Test(t, func(t *testing.T) {
		loop, err := NewLoop(LoopConfig{
			Transport: noDisk{}, Host: home.host, Verifier: NewVerifier(crdt.VerifyEd25519), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
			Open: func(context.Context) (*Core, Disk, error) {
				opened++
				core, err := New(home.core.cfg, recoveryOf(home), c.now)
				return core, fullDisk{full: &full}, err
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = loop.Run(ctx) }()
		defer cancel()
		seen, _ := home.core.See(podKey("web"))
		health := loops.Health{Generation: loops.Generation(seen.Object.Status(), "app"), Report: loops.Report{Code: "ReadinessFailed", Message: "it is closed"}}
		loop.Post(ctx, Membership{Machine: others, Alive: true})
		loop.Post(ctx, Connection{Machine: others, Up: true})
		loop.Post(ctx, Probed{Key: podKey("web"), ID: seen.Object.ID, Container: "app", Health: health})
		synctest.Wait()
		full = true
		if a, err := loop.Write(ctx, Write{Author: "user:alice", Edits: []Edit{pod(t, "more", hello)}}); err == nil && a.Err == nil {
			t.Fatal("a full disk took a write")
		}
		full = false
		<-time.After(2 * reopenAfter)
		synctest.Wait()
		if opened < 2 {
			t.Fatal("the disk was not opened again")
		}
		_ = loop.Query(ctx, func(core *Core) {
			m := core.members.all[others]
			if m == nil || !m.alive || !m.connected {
				t.Errorf("of another machine it knows %+v", m)
			}
			if got, _ := (&view{c: core}).Health(seen.Object.ID, "app"); got != health {
				t.Errorf("of the probes it knows %+v, want %+v", got, health)
			}
		})
	})
}
