package main

import (
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"starling.dev/starling/sim"
)

// simCommand rehearses faults in virtual time.
func simCommand(c *cli) *cobra.Command {
	var cfg sim.Config
	var seeds uint64
	var trace bool
	cmd := &cobra.Command{
		Use: "sim", Short: "Run a simulated cluster under faults, in virtual time, from one seed",
		Long: "Runs the peers of this program in virtual time, with a simulated network, disks, machines and people,\n" +
			"and checks after each step that the cluster keeps its promises. A seed is repeated exactly.",
		Example: "  peer sim --seed 7 --peers 5 --for 1m --trace\n  peer sim --seeds 100",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if trace {
				cfg.Trace = c.out
			}
			return simulate(c, cfg, seeds)
		},
	}
	flags := cmd.Flags()
	flags.Uint64Var(&cfg.Seed, "seed", 1, "decides everything that happens")
	flags.Uint64Var(&seeds, "seeds", 1, "how many seeds to run, from --seed on")
	flags.IntVar(&cfg.Peers, "peers", 5, "how many machines there are at first")
	cfg.Duration = time.Minute
	flags.Var(duration{&cfg.Duration}, "for", "how long faults last, in virtual time")
	flags.BoolVar(&cfg.Calm, "calm", false, "leave faults out")
	flags.BoolVar(&trace, "trace", false, "print what happens")
	return cmd
}

// simGC lets the heap of a simulation grow to several times of what is alive, which is a
// few megabytes, so that it is not collected all the time.
const simGC = 800

// simulate runs seeds one after the other, up to the first violation.
func simulate(c *cli, cfg sim.Config, seeds uint64) error {
	debug.SetGCPercent(simGC)
	for ; seeds > 0; seeds-- {
		begin := c.now()
		r, err := sim.Run(cfg)
		if err != nil {
			return explainViolation(err)
		}
		took := c.now().Sub(begin)
		c.print(fmt.Sprintf("seed %d: %d events (%.0f/s), %v of virtual time in %v, at rest after %v, trace %s\n",
			cfg.Seed, r.Figures.Events, float64(r.Figures.Events)/took.Seconds(), r.Virtual, took.Round(time.Millisecond), r.Settled, r.TraceHash))
		if seeds == 1 {
			for _, what := range slices.Sorted(maps.Keys(r.Figures.Sometimes)) {
				c.print(fmt.Sprintf("%8d  %s\n", r.Figures.Sometimes[what], what))
			}
		}
		cfg.Seed++
	}
	return nil
}

// explainViolation shows what happened just before.
func explainViolation(err error) error {
	var v *sim.Violation
	if errors.As(err, &v) {
		return fmt.Errorf("%s\n%w", strings.Join(v.Trace, "\n"), err)
	}
	return err
}
