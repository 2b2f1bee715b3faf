package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client/text"
)

// analysis is what `peer analyze` is asked for.
type analysis struct {
	dot, churn    bool
	since, output string
}

func analyzeCommand(c *cli) *cobra.Command {
	var a analysis
	cmd := &cobra.Command{
		Use: "analyze [OBJ]", Short: "Where time goes: in an object's last run, or over the cluster",
		Long: "Tell how long each step of an object's last run waited and worked. Steps marked * are the chain that decided\n" +
			"how long all of it took; the long pole is the longest of them.\n\n" +
			"Without an object, tell the median and the 99th percentile of each step over the cluster, the slowest first, from\n" +
			"the latest results that the peer knows of. --churn tells instead which loops wrote most, and about which object.",
		Example:           "  peer analyze web\n  peer analyze web --dot | dot -Tsvg > web.svg\n  peer analyze --since 10m\n  peer analyze --churn",
		Args:              objectArgs(0, 1),
		ValidArgsFunction: c.completeObject,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 && a.dot:
				return errors.New("--dot draws the graph of one object; name it")
			case len(args) == 0:
				return c.analyzeCluster(cmd.Context(), a)
			case a.churn || a.since != "":
				return errors.New("--churn and --since are for the whole cluster; leave the object out")
			}
			return c.analyzeObject(cmd.Context(), args, a)
		},
	}
	cmd.Flags().BoolVar(&a.dot, "dot", false, "draw the graph of steps for Graphviz instead")
	cmd.Flags().BoolVar(&a.churn, "churn", false, "which loops wrote most, and about what")
	cmd.Flags().StringVar(&a.since, "since", "", "only the last `TIME`, as in 10m, or since a time as in 2006-01-02T15:04:05Z")
	cmd.Flags().StringVarP(&a.output, "output", "o", "", "json or yaml")
	return cmd
}

func (c *cli) analyzeObject(ctx context.Context, args []string, a analysis) error {
	key, err := c.oneObject(ctx, args)
	if err != nil {
		return err
	}
	p, err := c.dial()
	if err != nil {
		return err
	}
	defer p.Close()
	got, err := p.Status(ctx, &apiv1.StatusRequest{Key: key})
	if err != nil {
		return err
	}
	if a.output != "" {
		return c.printMessage(got, a.output)
	}
	for _, o := range got.GetObjects() {
		if a.dot {
			c.print(text.Dot(o))
		} else {
			c.print(c.style().Analyze(o))
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
	default:
		c.print(c.style().Steps(got))
	}
	c.view(got.GetView())
	return nil
}
