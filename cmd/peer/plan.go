package main

import (
	"github.com/spf13/cobra"

	apiv1 "starling.dev/starling/api/v1"
)

func planCommand(c *cli) *cobra.Command {
	var files []string
	var output string
	cmd := &cobra.Command{
		Use: "plan -f FILE", Short: "Tell what applying the files would do, and do nothing",
		Long: "Tell which fields would change, which steps would run again and where, what would stay, and what that\n" +
			"means for the service. The exit code is 2 when something would change.",
		Example: "  peer plan -f web.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := knownOutput(output); err != nil {
				return err
			}
			specs, err := c.readSpecs(cmd.Context(), files)
			if err != nil {
				return err
			}
			p, err := c.dial()
			if err != nil {
				return err
			}
			defer p.Close()
			plan, err := p.Plan(cmd.Context(), &apiv1.ApplyRequest{Edits: applyEdits(specs), Author: c.author()})
			if err != nil {
				return located(err, specs)
			}
			if output == "" {
				c.print(c.style().Plan(plan))
				c.view(plan.GetView())
			} else if err := c.printMessage(plan, output); err != nil {
				return err
			}
			return differs(plan)
		},
	}
	cmd.Flags().StringArrayVarP(&files, "filename", "f", nil, "a file, a directory, or - for the standard input; may be repeated")
	outputFlag(cmd, &output)
	return cmd
}

func differs(plan *apiv1.PlanResponse) error {
	for _, o := range plan.GetObjects() {
		if o.GetResult() != "unchanged" {
			return &exitStatus{code: exitDifference}
		}
	}
	return nil
}
