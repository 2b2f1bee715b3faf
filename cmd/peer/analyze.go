package main

import (
	"github.com/spf13/cobra"

	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client/text"
)

func analyzeCommand(c *cli) *cobra.Command {
	var dot bool
	cmd := &cobra.Command{
		Use: "analyze OBJ", Short: "Where an object's last run spent its time",
		Long: "Tell how long each step of an object's last run waited and worked. Steps marked * are the chain that decided\n" +
			"how long all of it took; the long pole is the longest of them.",
		Example:           "  peer analyze web\n  peer analyze web --dot | dot -Tsvg > web.svg",
		Args:              objectArgs(1, 1),
		ValidArgsFunction: c.completeObject,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := c.oneObject(cmd.Context(), args)
			if err != nil {
				return err
			}
			p, err := c.dial()
			if err != nil {
				return err
			}
			defer p.Close()
			got, err := p.Status(cmd.Context(), &apiv1.StatusRequest{Key: key})
			if err != nil {
				return err
			}
			for _, o := range got.GetObjects() {
				if dot {
					c.print(text.Dot(o))
				} else {
					c.print(c.style().Analyze(o))
				}
			}
			c.view(got.GetView())
			return nil
		},
	}
	cmd.Flags().BoolVar(&dot, "dot", false, "draw the graph of steps for Graphviz instead")
	return cmd
}
