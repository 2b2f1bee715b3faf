package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client/text"
)

// analysis is what `peer analyze` is asked for.
type analysis struct {
	dot, plot, churn bool
	since, output    string
}

func analyzeCommand(c *cli) *cobra.Command {
	var a analysis
	cmd := &cobra.Command{
		Use: "analyze [OBJ[@RUN]]", Short: "Where time goes: in a run of an object, or over the cluster",
		Long: "Tell how long each step of an object's last run waited and worked. Steps marked * are the chain that decided\n" +
			"how long all of it took; the long pole is the longest of them.\n\n" +
			"OBJ@RUN looks at an earlier run: RUN is a rev, for what the steps did until the next one was written, or a time as\n" +
			"in 2006-01-02T15:04:05Z, for the last run before it. `peer history` lists both.\n\n" +
			"Without an object, tell the median and the 99th percentile of each step over the cluster, the slowest first, from\n" +
			"the latest results that the peer knows of. --churn tells instead which loops wrote most, and about which object.\n\n" +
			"--plot draws either as SVG, --dot the steps and what they require for Graphviz.",
		Example: "  peer analyze web\n  peer analyze web@3\n  peer analyze web --plot > web.svg\n" +
			"  peer analyze --since 10m --dot | dot -Tsvg > cluster.svg\n  peer analyze --churn",
		Args:              objectArgs(0, 1),
		ValidArgsFunction: c.completeObject,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return c.analyzeCluster(cmd.Context(), a)
			case a.churn || a.since != "":
				return errors.New("--churn and --since are for the whole cluster; leave the object out")
			}
			return c.analyzeObject(cmd.Context(), args, a)
		},
	}
	cmd.Flags().BoolVar(&a.dot, "dot", false, "draw the steps and what they require, for Graphviz")
	cmd.Flags().BoolVar(&a.plot, "plot", false, "draw how long the steps took, as SVG")
	cmd.Flags().BoolVar(&a.churn, "churn", false, "which loops wrote most, and about what")
	cmd.Flags().StringVar(&a.since, "since", "", "only the last `TIME`, as in 10m, or since a time as in 2006-01-02T15:04:05Z")
	cmd.Flags().StringVarP(&a.output, "output", "o", "", "json or yaml")
	cmd.MarkFlagsMutuallyExclusive("dot", "plot", "churn")
	return cmd
}

func (c *cli) analyzeObject(ctx context.Context, args []string, a analysis) error {
	args = slices.Clone(args)
	last, run := &args[len(args)-1], ""
	*last, run, _ = strings.Cut(*last, "@")
	key, err := c.oneObject(ctx, args)
	if err != nil {
		return err
	}
	p, err := c.dial()
	if err != nil {
		return err
	}
	defer p.Close()
	got, err := p.Status(ctx, &apiv1.StatusRequest{Key: key, At: run})
	if err != nil {
		return err
	}
	if a.output != "" {
		return c.printMessage(got, a.output)
	}
	for _, o := range got.GetObjects() {
		switch {
		case a.dot:
			c.print(text.Dot(o, got.GetFromMs()))
		case a.plot:
			c.print(text.Plot(o, got.GetFromMs()))
		default:
			c.print(c.style().Analyze(o, got.GetFromMs()))
		}
	}
	c.view(got.GetView())
	return nil
}

func (c *cli) analyzeCluster(ctx context.Context, a analysis) error {
	from, err := c.since(a.since)
	if err != nil {
		return err
	}
	p, err := c.dial()
	if err != nil {
		return err
	}
	defer p.Close()
	got, err := p.Analyze(ctx, &apiv1.AnalyzeRequest{SinceMs: from})
	if err != nil {
		return err
	}
	switch {
	case a.output != "":
		return c.printMessage(got, a.output)
	case a.churn:
		c.print(c.style().Churn(got))
	case a.dot:
		c.print(text.DotSteps(got))
	case a.plot:
		c.print(c.style().PlotSteps(got))
	default:
		c.print(c.style().Steps(got))
	}
	c.view(got.GetView())
	return nil
}
