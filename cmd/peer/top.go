package main

import (
	"time"

	"github.com/spf13/cobra"

	apiv1 "starling.dev/starling/api/v1"
)

func topCommand(c *cli) *cobra.Command {
	var output, order string
	window := time.Second
	cmd := &cobra.Command{
		Use: "top", Short: "What the containers of all machines in reach use now",
		Long: "Measure what containers use of processor and memory, beside their limits. CPU is in cores, over the time that --for gives;\n" +
			"memory leaves out cached files that the kernel can take back at once. Nothing of it is stored.",
		Example: "  peer top\n  peer top --sort memory --for 10s",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf("--sort", order, "cpu", "memory"); err != nil {
				return err
			}
			if err := (duration{&window}).atMost("--for", time.Minute); err != nil {
				return err
			}
			p, err := c.dial()
			if err != nil {
				return err
			}
			defer p.Close()
			got, err := p.Top(cmd.Context(), &apiv1.TopRequest{WindowMs: window.Milliseconds()})
			if err != nil {
				return err
			}
			if output != "" {
				return c.printMessage(got, output)
			}
			c.print(c.style().Top(got.GetContainers(), order == "memory"))
			c.view(got.GetView())
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml")
	cmd.Flags().StringVar(&order, "sort", "cpu", "what to sort by: cpu or memory")
	cmd.Flags().Var(duration{&window}, "for", "how long to measure, at most a minute")
	return cmd
}
