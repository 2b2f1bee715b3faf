package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

// restartField is the counter that the container step reads.
const restartField = "lifecycle.restart"

func restartCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "restart OBJ", Short: "Restart a pod's containers in place",
		Long:              "Restart a pod's containers in place: it keeps its machine, its address and its reservation.",
		Example:           "  peer restart web",
		Args:              objectArgs(1, 1),
		ValidArgsFunction: c.completeObject,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := c.oneObject(cmd.Context(), args)
			if err != nil {
				return err
			}
			n, err := c.restarts(cmd.Context(), key)
			if err != nil {
				return err
			}
			return c.change(cmd.Context(), "restart", &apiv1.Edit{
				Kind: apiv1.EditKind_EDIT_KIND_PATCH, Key: key, Fields: api.Fields{restartField: api.Int(n + 1)}, MustExist: true,
			})
		},
	}
}

func (c *cli) restarts(ctx context.Context, key *apiv1.Key) (int64, error) {
	if _, ok := c.fieldOf(ctx, key.GetKind(), restartField); !ok {
		return 0, fmt.Errorf("%s is no pod, and only pods have containers to restart; list them with `peer get pods`", client.KeyOf(key))
	}
	o, err := c.getOne(ctx, key)
	if err != nil {
		return 0, err
	}
	return api.Fields(o.GetFields()).Int(restartField), nil
}
