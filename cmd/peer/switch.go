package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
)

// targetField is the target that an object is to reach.
const targetField = "lifecycle.target"

// skipField lists the steps that are passed over on the way to the target.
const skipField = "lifecycle.skip"

func switchCommand(c *cli) *cobra.Command {
	var skip []string
	cmd := &cobra.Command{
		Use: "switch OBJ TARGET", Short: "Bring an object to another target",
		Long:    "Bring an object to another target of its lifecycle. A stopped pod keeps its machine, its address and its volumes.",
		Example: "  peer switch web stopped\n  peer switch web ready --skip audit:check",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("name an object and a target: %s", cmd.UseLine())
			}
			return nil
		},
		ValidArgsFunction: c.completeSwitch,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := c.oneObject(cmd.Context(), args)
			if err != nil {
				return err
			}
			edit := &apiv1.Edit{
				Kind: apiv1.EditKind_EDIT_KIND_PATCH, Key: key, Fields: api.Fields{targetField: api.Str(args[1])}, MustExist: true,
			}
			note := "switch to " + args[1]
			switch _, skips := c.fieldOf(cmd.Context(), key.GetKind(), skipField); {
			case len(skip) > 0:
				edit.Fields[skipField] = api.List(skip...)
				note += ", skip " + strings.Join(skip, ", ")
			case skips:
				edit.Unset = []string{skipField} // what was passed over before is not any more
			}
			return c.change(cmd.Context(), note, edit)
		},
	}
	cmd.Flags().StringArrayVar(&skip, "skip", nil, "pass over this `STEP`, on the record; until the next switch (may be repeated)")
	return cmd
}

// targetsOf lists the targets of a kind that people can switch to.
func (c *cli) targetsOf(ctx context.Context, kind string) []string {
	f, _ := c.fieldOf(ctx, kind, targetField)
	return f.Enum
}

func (c *cli) fieldOf(ctx context.Context, kind, path string) (api.Field, bool) {
	if f, ok := api.Builtin().FieldOf(kind, path); ok {
		return f, true
	}
	all, err := c.catalog(ctx)
	if err != nil {
		return api.Field{}, false
	}
	return all.FieldOf(kind, path)
}
