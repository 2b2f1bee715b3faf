package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	apiv1 "starling.dev/starling/api/v1"
)

func debugCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "debug", Short: "Figures for people who look for faults", Hidden: true}
	cmd.AddCommand(
		c.debugPart("state-hash", "Print the hash of all that is replicated: equal on peers that know the same", func(d *apiv1.DebugResponse) {
			c.print(d.GetStateHash() + "\n")
		}),
		c.debugPart("figures", "Print what the peer counts", func(d *apiv1.DebugResponse) {
			for _, name := range slices.Sorted(maps.Keys(d.GetFigures())) {
				c.print(fmt.Sprintf("%s %d\n", name, d.GetFigures()[name]))
			}
		}),
	)
	return cmd
}

func (c *cli) debugPart(use, short string, print func(*apiv1.DebugResponse)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := c.dial()
			if err != nil {
				return err
			}
			defer p.Close()
			got, err := p.Debug(cmd.Context(), &apiv1.DebugRequest{})
			if err != nil {
				return err
			}
			print(got)
			c.view(got.GetView())
			return nil
		},
	}
}
