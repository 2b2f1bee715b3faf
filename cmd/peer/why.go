package main

import (
	"context"

	"github.com/spf13/cobra"

	apiv1 "starling.dev/starling/api/v1"
)

func whyCommand(c *cli) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "why OBJ", Short: "Why an object is not there yet, and what to do",
		Long: "Tell the one cause that keeps an object from being what it should, on which machine, since when, and what to do\n" +
			"about it; below, the chain that leads there. The exit code tells where the object stands (peer help exit-codes).",
		Example:           "  peer why web",
		Args:              objectArgs(1, 1),
		ValidArgsFunction: c.completeObject,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := c.oneObject(cmd.Context(), args)
			if err != nil {
				return err
			}
			why, err := c.why(cmd.Context(), key)
			if err != nil {
				return err
			}
			if output == "" {
				c.print(c.style().Why(why))
			} else if err := c.printMessage(why, output); err != nil {
				return err
			}
			return byVerdict(why.GetVerdict())
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml")
	return cmd
}

func (c *cli) why(ctx context.Context, key *apiv1.Key) (*apiv1.WhyResponse, error) {
	p, err := c.dial()
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return p.Why(ctx, &apiv1.WhyRequest{Key: key})
}
