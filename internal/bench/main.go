package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"

	"starling.dev/starling/internal/bench/logbench"
	"starling.dev/starling/internal/bench/report"
)

// part is a group of measurements with a name.
type part struct {
	name, what string
	run        func(context.Context) ([]report.Row, error)
}

// is reports whether the part has the name, or belongs to a group of that name.
func (p part) is(name string) bool { return p.name == name || strings.HasPrefix(p.name, name+"/") }

func parts(objects []int) []part {
	return []part{
		{"log/writes", "durable writes beside etcd", logbench.Writes},
		{"log/reads", "reads through the API beside etcd", logbench.Reads},
		{"log/bytes", "bytes of a change", logbench.Bytes},
		{"log/healing", "a long log that one of two lacks", logbench.Healing},
		{"size", "memory and restart with many objects", func(ctx context.Context) ([]report.Row, error) { return logbench.RunSizes(ctx, objects) }},
		{"spread", "how one entry reaches 10 to 10,000 simulated peers, and what idling costs", goBench("./peer", "Spread|Idle", "5x")},
		{"lifecycle/plan", "evaluating and planning one object", goBench("./loops", "Evaluate|Plan", "200ms")},
		{"lifecycle/start", "1,000 pods at once on simulated machines, beside the critical path", goBench("./sim", "ThousandPods", "1x")},
		{"xlat", "translation between IPv4 and IPv6", translation},
		{"net", "pod networks, services, IPv4 egress, tunnels (root)", network},
		{"store", "commits and opening", goBench("./store", ".", "1x")},
		{"streams", "connections between peers", goBench("./gossip", "Ping|Throughput", "200ms")},
		{"runtime", "containers (root)", goBench("./oci", ".", "1x")},
	}
}

func main() {
	if role := os.Getenv(logbench.RoleEnv); role != "" {
		exit(profiled(os.Getenv(profileEnv), func() error { return logbench.Child(role) }))
		return
	}
	sizes := flag.String("objects", "0,10000,100000", "numbers of objects that memory and restart are measured with")
	profile := flag.String("cpuprofile", "", "write a CPU profile of this process to `FILE`, and of the last peer that it starts to FILE.peer")
	flag.Parse()
	if *profile != "" {
		exit(os.Setenv(profileEnv, *profile+".peer"))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE) // nothing that it started stays
	defer stop()
	exit(profiled(*profile, func() error { return run(ctx, *sizes, flag.Args()) }))
}

// profileEnv tells another process where to write its profile.
const profileEnv = "STARLING_BENCH_CPUPROFILE"

// profiled runs do, with a CPU profile if a file is named.
func profiled(file string, do func() error) error {
	if file == "" {
		return do()
	}
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("create the profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return errors.Join(fmt.Errorf("start the profile: %w", err), f.Close())
	}
	err = do()
	pprof.StopCPUProfile()
	return errors.Join(err, f.Close())
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, sizes string, names []string) error {
	objects, err := logbench.Sizes(sizes)
	if err != nil {
		return err
	}
	all := parts(objects)
	for _, name := range names {
		if !slices.ContainsFunc(all, func(p part) bool { return p.is(name) }) {
			return fmt.Errorf("there is no part %q; choose of: %s", name, list(all))
		}
	}
	var rows []report.Row
	for _, p := range all {
		if len(names) > 0 && !slices.ContainsFunc(names, p.is) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", p.name, p.what)
		measured, err := p.run(ctx)
		rows = append(rows, measured...)
		if err != nil {
			rows = append(rows, report.Row{What: p.name, Measured: "failed: " + err.Error()})
		}
	}
	return report.Print(os.Stdout, rows)
}

func list(all []part) string {
	var names []string
	for _, p := range all {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}
