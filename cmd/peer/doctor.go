package main

import (
	"github.com/spf13/cobra"

	apiv1 "starling.dev/starling/api/v1"
)

func doctorCommand(c *cli) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "doctor", Short: "Look for what on this machine keeps the cluster from working",
		Long:    "Look for what on this machine keeps the cluster from working: a firewall, a setting. The exit code is 1 when\nthere is something.",
		Example: "  peer doctor",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := c.dial()
			if err != nil {
				return err
			}
			defer p.Close()
			got, err := p.Doctor(cmd.Context(), &apiv1.DoctorRequest{})
			if err != nil {
				return err
			}
			if output == "" {
				c.print(c.style().Findings(got))
				c.view(got.GetView())
			} else if err := c.printMessage(got, output); err != nil {
				return err
			}
			if len(got.GetFindings()) > 0 {
				return &exitStatus{code: exitError}
			}
			return nil
		},
	}
	outputFlag(cmd, &output)
	return cmd
}
