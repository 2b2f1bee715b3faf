package main

import (
	"strings"

	"github.com/spf13/cobra"

	apiv1 "starling.dev/starling/api/v1"
)

// statusLines is how many of a pod's last lines are shown beside its status.
const statusLines = 5

func statusCommand(c *cli) *cobra.Command {
	var net bool
	var output string
	cmd := &cobra.Command{
		Use: "status [KIND|OBJ]", Short: "What is happening now",
		Long: "Tell where each step of an object stands: what it waits for, since when, how long it worked, and which\n" +
			"fields people disagree about; of a pod also what its containers wrote last. Without an object, or with a kind, a\n" +
			"line for each. The exit code tells where the object, or the worst of all, stands (peer help exit-codes).",
		Example:           "  peer status\n  peer status pods\n  peer status web\n  peer status machine/m1 --net",
		Args:              objectArgs(0, 1),
		ValidArgsFunction: c.completeGet,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := c.someObjects(cmd.Context(), args)
			if err != nil {
				return err
			}
			p, err := c.dial()
			if err != nil {
				return err
			}
			defer p.Close()
			got, err := p.Status(cmd.Context(), &apiv1.StatusRequest{Key: key, Net: net, Lines: statusLines})
			if err != nil {
				return err
			}
			if err := c.printStatus(got, output, key.GetName() != ""); err != nil {
				return err
			}
			var verdicts []string
			for _, o := range got.GetObjects() {
				verdicts = append(verdicts, o.GetObject().GetVerdict())
			}
			return byVerdict(verdicts...)
		},
	}
	cmd.Flags().BoolVar(&net, "net", false, "for a machine: all that the cluster put into its network")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml")
	return cmd
}

func (c *cli) printStatus(got *apiv1.StatusResponse, output string, one bool) error {
	if output != "" {
		return c.printMessage(got, output)
	}
	style := c.style()
	if !one {
		c.print(style.Overview(got.GetObjects()))
		c.view(got.GetView())
		return nil
	}
	for _, o := range got.GetObjects() {
		c.print(style.Status(o))
	}
	if lines := got.GetLastLines(); len(lines) > 0 {
		c.print("\nlast lines:\n  " + strings.Join(lines, "\n  ") + "\n")
	}
	if got.GetNet() != "" {
		c.print("\n" + strings.TrimSuffix(got.GetNet(), "\n") + "\n")
	}
	c.print(style.AnyView(got.GetView()))
	return nil
}
