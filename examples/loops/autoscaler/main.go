// Autoscaler says how many pods a PinnedDeployment should have, by the files that wait in a
// queue: one pod for every ten. A deployment hands its number over with
// spec.scaling: autoscaler, and takes it back by leaving that out.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/loop"
)

func main() {
	socket := flag.String("socket", "", "the peer's `socket`; empty for this machine's")
	queue := flag.String("queue", "/var/spool/work", "the `directory` whose files wait to be worked on; all machines see the same")
	least := flag.Int("least", 1, "the least number of pods")
	most := flag.Int("most", 10, "the greatest number of pods")
	every := flag.Duration("every", 10*time.Second, "how often the queue is looked at")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	s := scaler{queue: *queue, least: *least, most: *most}
	if err := loop.Run(ctx, loop.Config{Socket: *socket, Loop: s.loop(*every), Logger: log}); err != nil {
		log.Error("autoscaler", "error", err)
		os.Exit(1)
	}
}

type scaler struct {
	queue       string
	least, most int
}

// loop declares the step. It is wanted, not required: a deployment whose queue can't be
// looked at keeps the pods that it has.
func (s scaler) loop(every time.Duration) loop.Loop {
	return loop.Loop{
		Name: "autoscaler",
		Steps: []loop.Step{{
			Name:     "measure",
			Kind:     "PinnedDeployment",
			WantedBy: []string{"ready"},
			Outputs:  []string{"status.loops.autoscaler.replicas"},
			Timeout:  10 * time.Second,
			Every:    every,
			Now:      true,
			Do:       s.measure,
		}},
	}
}

const filesPerPod = 10

func (s scaler) measure(context.Context, loop.Call) (loop.Fields, error) {
	files, err := os.ReadDir(s.queue)
	if err != nil {
		return nil, fmt.Errorf("look at the queue: %w", err)
	}
	pods := (len(files) + filesPerPod - 1) / filesPerPod
	return loop.Fields{"status.loops.autoscaler.replicas": api.Int(min(max(pods, s.least), s.most))}, nil
}
