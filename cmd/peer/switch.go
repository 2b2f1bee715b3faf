package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
)

// targetField is the target that an object is to reach.
const targetField = "lifecycle.target"

// targetDeleted is where every object can be switched to.
const targetDeleted = "deleted"

func switchCommand(c *cli) *cobra.Command {
	to := &apiv1.SwitchTo{}
	cmd := &cobra.Command{
		Use: "switch OBJ [TARGET]", Short: "Bring an object to another target",
		Long: `Bring an object to another target of its lifecycle. A stopped pod keeps its machine, its address and its
volumes; "deleted" is a target of every object.

While another switch is under way, --mode says what happens:

  fail          this one is refused, unless it goes to the same target
  replace       this one takes its place (the default)
  irreversible  so too, and can itself only be cancelled, or passed by a deletion

--cancel gives the switch up that is under way: the object returns to where it was at rest. A deletion can't be
cancelled.`,
		Example:           "  peer switch web stopped --mode fail\n  peer switch web --cancel\n  peer switch web ready --skip audit:check",
		Args:              func(cmd *cobra.Command, args []string) error { return switchArgs(cmd, args, to.Cancel) },
		ValidArgsFunction: c.completeSwitch,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := c.oneObject(cmd.Context(), args[:1])
			if err != nil {
				return err
			}
			note := "cancel the switch"
			if !to.Cancel {
				to.Target, note = args[1], "switch to "+args[1]
			}
			if len(to.Skip) > 0 {
				note += ", skip " + strings.Join(to.Skip, ", ")
			}
			return c.change(cmd.Context(), note, &apiv1.Edit{Kind: apiv1.EditKind_EDIT_KIND_SWITCH, Key: key, SwitchTo: to})
		},
	}
	cmd.Flags().StringArrayVar(&to.Skip, "skip", nil, "pass over this `STEP`, on the record; until the next switch (may be repeated)")
	cmd.Flags().StringVar(&to.Mode, "mode", "", "fail, replace or irreversible: what happens while another switch is under way (default replace)")
	cmd.Flags().BoolVar(&to.Cancel, "cancel", false, "give up the switch that is under way")
	return cmd
}

func switchArgs(cmd *cobra.Command, args []string, cancel bool) error {
	switch {
	case cancel && len(args) == 1, !cancel && len(args) == 2:
		return nil
	case cancel:
		return errors.New("--cancel takes an object alone: the object returns to where it was")
	}
	return fmt.Errorf("name an object and a target: %s", cmd.UseLine())
}

// targetsOf lists the targets of a kind that people can switch to.
func (c *cli) targetsOf(ctx context.Context, kind string) []string {
	f, _ := c.fieldOf(ctx, kind, targetField)
	return append(f.Enum[:len(f.Enum):len(f.Enum)], targetDeleted)
}

func (c *cli) fieldOf(ctx context.Context, kind, path string) (api.Field, bool) {
	return c.known(ctx).FieldOf(kind, path)
}
