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

func machineCommand(c *cli) *cobra.Command {
	cmd := group(&cobra.Command{Use: "machine", Short: "The machines of the cluster"})
	cmd.AddCommand(machineListCommand(c), machineDrainCommand(c), machineResumeCommand(c), machineLabelCommand(c), machineTunnelCommand(c), machineRemoveCommand(c))
	return cmd
}

func machineListCommand(c *cli) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "ls", Short: "List the machines; the one that was asked is marked *",
		Aliases: []string{"list"},
		Example: "  peer machine ls -o wide",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf("-o", output, "", "wide", "json", "yaml"); err != nil {
				return err
			}
			got, err := c.machines(cmd.Context())
			if err != nil {
				return err
			}
			if output != "" && output != "wide" {
				return c.printMessage(got, output)
			}
			c.print(c.style().Machines(got, output == "wide"))
			c.view(got.GetView())
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json, yaml or wide")
	return cmd
}

func (c *cli) machines(ctx context.Context) (*apiv1.MachinesResponse, error) {
	p, err := c.dial()
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return p.Machines(ctx, &apiv1.MachinesRequest{})
}

func machineDrainCommand(c *cli) *cobra.Command {
	return c.machineEdit("drain", "Move the pods away and take no more", func(e *apiv1.Edit) {
		e.Fields = api.Fields{targetField: api.Str(api.TargetDrained)}
	})
}

// A machine is ready unless somebody says otherwise: resume takes that back, so that
// nothing but the default is left.
func machineResumeCommand(c *cli) *cobra.Command {
	return c.machineEdit("resume", "Take pods again", func(e *apiv1.Edit) { e.Unset = []string{targetField} })
}

func (c *cli) machineEdit(verb, short string, set func(*apiv1.Edit)) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME", Short: short,
		Example:           "  peer machine " + verb + " m2",
		Args:              machineArg,
		ValidArgsFunction: c.completeMachine,
		RunE: func(cmd *cobra.Command, args []string) error {
			edit := machinePatch(args[0])
			set(edit)
			return c.change(cmd.Context(), verb, edit)
		},
	}
}

func machinePatch(name string) *apiv1.Edit {
	name = strings.TrimPrefix(name, "machine/")
	return &apiv1.Edit{Kind: apiv1.EditKind_EDIT_KIND_PATCH, Key: &apiv1.Key{Kind: "Machine", Name: name}, MustExist: true}
}

func machineArg(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("name one machine: %s", cmd.UseLine())
	}
	return nil
}

func machineLabelCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "label NAME KEY=VALUE...", Short: "Set labels, which pods can require; KEY- removes one",
		Example: "  peer machine label m2 disk=ssd rack-",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return fmt.Errorf("name a machine and its labels: %s", cmd.UseLine())
			}
			return nil
		},
		ValidArgsFunction: c.completeMachine,
		RunE: func(cmd *cobra.Command, args []string) error {
			edit := machinePatch(args[0])
			if err := labelEdit(edit, args[1:]); err != nil {
				return err
			}
			return c.change(cmd.Context(), "label", edit)
		},
	}
}

func machineTunnelCommand(c *cli) *cobra.Command {
	const field = "spec.wireguard"
	settings := map[string]func(*apiv1.Edit){
		"on":   func(e *apiv1.Edit) { e.Fields = api.Fields{field: "true"} },
		"off":  func(e *apiv1.Edit) { e.Fields = api.Fields{field: "false"} },
		"auto": func(e *apiv1.Edit) { e.Unset = []string{field} },
	}
	return &cobra.Command{
		Use: "wireguard NAME on|off|auto", Short: "Send what goes to machines that have it on too through WireGuard",
		Long:    "Give a machine a WireGuard device, or take it away. With auto it is as the machine's peer was started (--wireguard).",
		Example: "  peer machine wireguard m2 on",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 || settings[args[1]] == nil {
				return fmt.Errorf("name a machine, and on, off or auto: %s", cmd.UseLine())
			}
			return nil
		},
		ValidArgsFunction: c.completeMachine,
		RunE: func(cmd *cobra.Command, args []string) error {
			edit := machinePatch(args[0])
			settings[args[1]](edit)
			return c.change(cmd.Context(), "wireguard", edit)
		},
	}
}

func labelEdit(edit *apiv1.Edit, labels []string) error {
	edit.Fields = api.Fields{}
	for _, l := range labels {
		key, value, set := strings.Cut(l, "=")
		switch gone, unset := strings.CutSuffix(l, "-"); {
		case set && key != "":
			edit.Fields[api.Join("spec", "labels", key)] = api.Str(value)
		case unset && gone != "" && !set:
			edit.Unset = append(edit.Unset, api.Join("spec", "labels", gone))
		default:
			return fmt.Errorf("label %q: write KEY=VALUE, or KEY- to remove it", l)
		}
	}
	return nil
}

func machineRemoveCommand(c *cli) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "remove NAME", Short: "Take a machine's place in the cluster away for good",
		Long: "Take a machine's key away: nothing that it says counts from now on, and its pods run elsewhere. To come back\n" +
			"it has to join anew. Drain it first, if it still runs.",
		Example:           "  peer machine remove m3 --reason 'its disk died'",
		Args:              machineArg,
		ValidArgsFunction: c.completeMachine,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := c.dial()
			if err != nil {
				return err
			}
			defer p.Close()
			name := strings.TrimPrefix(args[0], "machine/")
			if name == "" {
				return errors.New("the machine's name is empty")
			}
			done, err := p.RemoveMachine(cmd.Context(), &apiv1.RemoveMachineRequest{Name: name, Reason: reason})
			if err != nil {
				return err
			}
			c.print("machine/" + name + " removed\n")
			c.say("What it last said of itself stays until `peer delete machine/%s`.", name)
			c.view(done.GetView())
			return nil
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the history")
	return cmd
}
