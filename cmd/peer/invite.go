package main

import (
	"time"

	"github.com/spf13/cobra"

	apiv1 "starling.dev/starling/api/v1"
)

func inviteCommand(c *cli) *cobra.Command {
	ttl := time.Hour
	var note string
	cmd := &cobra.Command{
		Use: "invite", Short: "Print the line that joins a machine to the cluster",
		Long: "Print the line to type on a new machine. It admits one machine, and is redeemed by this peer only, which\n" +
			"therefore has to be in reach.",
		Example: "  peer invite --ttl 30m",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := (duration{&ttl}).atMost("--ttl", 0); err != nil {
				return err
			}
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
			c.say("Type it on the new machine, as root. It works once, for %s.", duration{&ttl})
			return nil
		},
	}
	cmd.Flags().Var(duration{&ttl}, "ttl", "how long the line works")
	cmd.Flags().StringVarP(&note, "message", "m", "", "a note for the history")
	return cmd
}
