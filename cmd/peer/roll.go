package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

func rollCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "roll OBJ PERCENT|pause|abort", Short: "Move a deployment's pods to its next template",
		Long: "Move a deployment's pods to its next template: as many as PERCENT says, or none of them any further (pause), or\n" +
			"back to the previous template (abort). A roll stays where it is put; nothing goes on by itself. Pods change in\n" +
			"place, within the deployment's surge and unavailable.",
		Example: "  peer roll pinneddeployment/web 10%\n  peer roll pinneddeployment/web 100%\n  peer roll pinneddeployment/web abort",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("name a deployment, and how far it is to roll: %s", cmd.UseLine())
			}
			return nil
		},
		ValidArgsFunction: c.completeRoll,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := c.rollKey(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			edit, note, err := rollEdit(args[1])
			if err != nil {
				return err
			}
			if args[1] == "abort" {
				if err := c.canAbort(cmd, key); err != nil {
					return err
				}
			}
			edit.Key, edit.Kind, edit.MustExist = key, apiv1.EditKind_EDIT_KIND_PATCH, true
			return c.change(cmd.Context(), note, edit)
		},
	}
}

// rollKey reads the deployment's name; a lone name is a deployment here, and no pod.
func (c *cli) rollKey(ctx context.Context, s string) (*apiv1.Key, error) {
	if !strings.Contains(s, "/") {
		s = "pinneddeployment/" + s
	}
	key, err := c.parseKey(ctx, s)
	if err != nil {
		return nil, err
	}
	if key.Kind != "PinnedDeployment" {
		return nil, api.Errorf(api.Invalid, "%s is no deployment; only a PinnedDeployment rolls from one template to the next", s)
	}
	return client.KeyTo(key), nil
}

// rollEdit is the one write that each roll is.
func rollEdit(how string) (edit *apiv1.Edit, note string, err error) {
	const percent, paused = "spec.percentNext", "spec.paused"
	switch how {
	case "pause":
		return &apiv1.Edit{Fields: api.Fields{paused: "true"}}, "pause the roll", nil
	case "abort":
		return &apiv1.Edit{Fields: api.Fields{percent: "0"}, Unset: []string{paused}}, "abort the roll", nil
	}
	n, err := strconv.Atoi(strings.TrimSuffix(how, "%"))
	if err != nil || n < 0 || n > 100 {
		return nil, "", api.Errorf(api.Invalid, "%q is not how far to roll; write 0%% to 100%%, pause or abort", how)
	}
	return &apiv1.Edit{Fields: api.Fields{percent: api.Int(n)}, Unset: []string{paused}}, fmt.Sprintf("roll to %d%%", n), nil
}

// canAbort refuses to abort a roll that has nothing to return to.
func (c *cli) canAbort(cmd *cobra.Command, key *apiv1.Key) error {
	o, err := c.getOne(cmd.Context(), key)
	if err != nil {
		return err
	}
	if len(api.Template(o.GetFields(), api.TemplatePrevious)) > 0 {
		return nil
	}
	name := api.Key{Kind: key.GetKind(), Namespace: key.GetNamespace(), Name: key.GetName()}
	return api.Errorf(api.Invalid, "%s has no previous template to return to; bring an older rev back with `peer rollback %s`", name, name)
}

// completeRoll completes a deployment, then how far it can roll.
func (c *cli) completeRoll(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return c.completeNames(cmd, "PinnedDeployment", begun)
	}
	return startingWith(begun, []string{"0%", "10%", "50%", "100%", "abort", "pause"}), cobra.ShellCompDirectiveNoFileComp
}
