package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
)

// targetField is the target that an object is to reach.
const targetField = "lifecycle.target"

func switchCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "switch OBJ TARGET", Short: "Bring an object to another target",
		Long:    "Bring an object to another target of its lifecycle. A stopped pod keeps its machine, its address and its volumes.",
		Example: "  peer switch web stopped",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("name an object and a target: %s", cmd.UseLine())
			}
			return nil
		},
		ValidArgsFunction: c.completeSwitch,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := oneObject(args)
			if err != nil {
				return err
			}
			return c.change(cmd.Context(), "switch to "+args[1], &apiv1.Edit{
				Kind: apiv1.EditKind_EDIT_KIND_PATCH, Key: key, Fields: api.Fields{targetField: api.Str(args[1])}, MustExist: true,
			})
		},
	}
}

// targetsOf lists the targets of a kind that people can switch to.
func targetsOf(kind string) []string {
	f, _ := api.FieldOf(kind, targetField)
	return f.Enum
}
