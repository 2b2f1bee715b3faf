// Website is the loop of the kind that kind.yaml defines: it keeps the pods of each
// website, and says where they answer.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"starling.dev/starling/api"
	"starling.dev/starling/loop"
)

func main() {
	socket := flag.String("socket", "", "the peer's `socket`; empty for this machine's")
	image := flag.String("image", "localhost/hello:1", "the `image` that serves a greeting")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := loop.Run(ctx, loop.Config{Socket: *socket, Loop: website(*image), Logger: log}); err != nil {
		log.Error("website", "error", err)
		os.Exit(1)
	}
}

// website does the step that the Kind defines: what it reads, and when it runs, stands
// there.
func website(image string) loop.Loop {
	return loop.Loop{
		Name: "website",
		Steps: []loop.Step{{
			Name:     "serve",
			Kind:     "Website",
			InKind:   true,
			Children: "Pod",
			Do: func(_ context.Context, c loop.Call) (loop.Fields, error) {
				return serve(image, c)
			},
		}},
	}
}

// serve asks for the pods of one website, and is called again when one of them changes.
func serve(image string, c loop.Call) (loop.Fields, error) {
	wanted, ready := int(c.Fields.Int("spec.pods")), 0
	var addresses []string
	for slot := range wanted {
		c.Own(slot, pod(image, c.Fields))
		if child := c.Children[slot]; child.Serving() {
			ready++
			addresses = append(addresses, child.Address)
		}
	}
	slices.SortFunc(addresses, strings.Compare)
	status := loop.Fields{
		"status.loops.website.ready":     api.Int(ready),
		"status.loops.website.addresses": api.List(addresses...),
	}
	if ready < wanted {
		return status, loop.Pending(fmt.Sprintf("%d of %d pods serve", ready, wanted))
	}
	return status, nil
}

// pod is the spec of one pod, as a pod's own fields.
func pod(image string, site loop.Fields) loop.Fields {
	const app = "spec.containers.app."
	return loop.Fields{
		app + "image":            api.Str(image),
		app + "args":             api.List("--listen", "[::]:8080"),
		app + "env.GREETING":     api.Str(site.String("spec.greeting")),
		app + "ports.http":       api.Int(8080),
		app + "resources.memory": api.Bytes(site.Bytes("spec.memory")),
		"spec.labels.website":    api.Str("yes"),
	}
}
