package main

import (
	"github.com/spf13/cobra"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
)

func verifyCommand(c *cli) *cobra.Command {
	var dot, svg bool
	cmd := &cobra.Command{
		Use: "verify [KIND]", Short: "Prove that everything that is registered converges",
		Long: "Prove that everything that is registered converges: no cycle among steps, one owner for each field and each\n" +
			"outside resource, a bound on whatever runs against the order. It prints the longest chain of each kind, and what\n" +
			"foreign steps do not fit. The exit code is 1 if there are any.",
		Example: "  peer verify\n  peer verify pod --svg > pod.svg",
		Args:    cobra.MaximumNArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return c.completeKinds(cmd, args, begun)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &apiv1.VerifyRequest{}
			if len(args) == 1 {
				req.Kind = args[0]
				if k, ok := c.kind(cmd.Context(), args[0]); ok {
					req.Kind = k.Name
				}
			}
			switch {
			case dot:
				req.Drawing = "dot"
			case svg:
				req.Drawing = "svg"
			}
			return c.verify(cmd, req)
		},
	}
	cmd.Flags().BoolVar(&dot, "dot", false, "print the kind's lifecycle as a graph for Graphviz")
	cmd.Flags().BoolVar(&svg, "svg", false, "print the kind's lifecycle as a drawing")
	cmd.MarkFlagsMutuallyExclusive("dot", "svg")
	return cmd
}

func (c *cli) verify(cmd *cobra.Command, req *apiv1.VerifyRequest) error {
	p, err := c.dial()
	if err != nil {
		return err
	}
	defer p.Close()
	got, err := p.Verify(cmd.Context(), req)
	if err != nil {
		return err
	}
	if req.GetDrawing() != "" {
		c.print(got.GetDrawing())
		return nil
	}
	c.print(got.GetProof())
	c.view(got.GetView())
	for _, misfit := range got.GetMisfits() {
		c.print("left out: " + misfit + "\n")
	}
	if n := len(got.GetMisfits()); n > 0 {
		return api.Errorf(api.LoopRefused, "%d foreign steps don't fit and are left out, as listed", n)
	}
	return nil
}
