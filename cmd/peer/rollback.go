package main

import (
	"regexp"

	"github.com/spf13/cobra"

	apiv1 "starling.dev/starling/api/v1"
)

// changeSetName matches the name of a change set; an object of such a name can be
// written with its kind.
var changeSetName = regexp.MustCompile(`^[0-9a-f]{12}$`)

func rollbackCommand(c *cli) *cobra.Command {
	var to, note string
	cmd := &cobra.Command{
		Use: "rollback OBJ|CHANGESET", Short: "Bring an old spec back, as a new rev",
		Long: "Bring an old spec back, as a new rev: of one object, or of all that a change set touched.\n" +
			"A deleted object is brought back with its last spec. `peer history` names revs and change sets.",
		Example:           "  peer rollback web\n  peer rollback web --to 3\n  peer rollback 5f0c9a3be1d2",
		Args:              objectArgs(1, 1),
		ValidArgsFunction: c.completeObject,
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &apiv1.RollbackRequest{To: to, Message: note, Author: c.author()}
			if changeSetName.MatchString(args[0]) {
				req.ChangeSet = args[0]
			} else if key, err := c.oneObject(cmd.Context(), args); err != nil {
				return err
			} else {
				req.Key = key
			}
			p, err := c.dial()
			if err != nil {
				return err
			}
			defer p.Close()
			done, err := p.Rollback(cmd.Context(), req)
			if err != nil {
				return err
			}
			c.applied(done)
			return nil
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the rev to bring back (default: the one before)")
	cmd.Flags().StringVarP(&note, "message", "m", "", "a note for the history")
	return cmd
}
