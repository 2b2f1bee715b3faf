package main

import (
	"time"

	"github.com/spf13/cobra"

	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client/text"
)

func inviteCommand(c *cli) *cobra.Command {
	var ttl time.Duration
	var note string
	cmd := &cobra.Command{
		Use: "invite", Short: "Print the line that joins a machine to the cluster",
		Long: "Print the line to type on a new machine. It admits one machine, and is redeemed by this peer only, which\n" +
			"therefore has to be in reach.",
		Example: "  peer invite --ttl 30m",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := c.dial()
			if err != nil {
				return err
			}
			defer p.Close()
			got, err := p.Invite(cmd.Context(), &apiv1.InviteRequest{TtlMs: ttl.Milliseconds(), Note: note})
			if err != nil {
				return err
			}
			c.print(got.GetJoinLine() + "\n")
			left := time.UnixMilli(got.GetExpiresMs()).Sub(c.now())
			c.say("Type it on the new machine, as root. It works once, for %s.", text.Took(left.Round(time.Second)))
			return nil
		},
	}
	cmd.Flags().DurationVar(&ttl, "ttl", time.Hour, "how long the line works")
	cmd.Flags().StringVarP(&note, "message", "m", "", "a note for the history")
	return cmd
}
