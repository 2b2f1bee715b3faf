// Audit is a control loop in a page: before a pod's images are fetched, it checks that
// every image comes from a registry that the company trusts, and notes what it found.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/loop"
)

func main() {
	socket := flag.String("socket", "", "the peer's `socket`; empty for this machine's")
	trusted := flag.String("trusted", "localhost/", "what the names of good images begin with")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := loop.Run(ctx, loop.Config{Socket: *socket, Loop: audit(*trusted), Logger: log}); err != nil {
		log.Error("audit", "error", err)
		os.Exit(1)
	}
}

// audit declares the loop: one step of every pod, before its images are fetched.
func audit(trusted string) loop.Loop {
	return loop.Loop{
		Name: "audit",
		Steps: []loop.Step{{
			Name:       "check",
			Kind:       "Pod",
			Requires:   []string{"admit"},
			RequiredBy: []string{"image"},
			Reads:      []string{"spec.containers.*.image"},
			Outputs:    []string{"status.loops.audit"},
			Timeout:    10 * time.Second,
			Do: func(_ context.Context, c loop.Call) (loop.Fields, error) {
				return check(trusted, c)
			},
		}},
	}
}

func check(trusted string, c loop.Call) (loop.Fields, error) {
	for _, name := range c.Fields.Keys("spec.containers") {
		image := c.Fields.String(api.Join("spec", "containers", name, "image"))
		if !strings.HasPrefix(image, trusted) {
			return nil, &loop.Failure{
				Code: "UntrustedImage", Wait: true,
				Message: fmt.Sprintf("image %s of container %s is not from %s; use one that is", image, name, trusted),
			}
		}
	}
	return loop.Fields{"status.loops.audit.trusted": api.Str(trusted)}, nil
}
