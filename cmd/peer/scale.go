package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
)

// scaleCommand sets the number of a deployment's pods. It is one field, which `peer edit` and
// `peer apply` set as well, and a word that everybody knows; so it is there, and not listed.
func scaleCommand(c *cli) *cobra.Command {
	replicas := ""
	cmd := &cobra.Command{
		Use: "scale OBJ N", Hidden: true, Short: "Set the number of a deployment's pods",
		Args: func(cmd *cobra.Command, args []string) error {
			given := len(args)
			if replicas != "" || given == 1 && strings.Contains(args[0], "=") {
				given++
			}
			if given != 2 {
				return fmt.Errorf("name a deployment and how many pods it is to have: %s", cmd.UseLine())
			}
			return nil
		},
		ValidArgsFunction: c.completeRoll,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, glued, _ := strings.Cut(args[0], "=") // as docker service scale has it
			if replicas = cmp.Or(replicas, glued); replicas == "" {
				replicas = args[1]
			}
			count, err := strconv.Atoi(replicas)
			if err != nil || count < 0 {
				return fmt.Errorf("%q is not a number of pods; write a whole number, as in peer scale web 3", replicas)
			}
			key, err := c.rollKey(cmd.Context(), name)
			if err != nil {
				return err
			}
			return c.change(cmd.Context(), fmt.Sprintf("scale to %d", count), &apiv1.Edit{
				Kind: apiv1.EditKind_EDIT_KIND_PATCH, Key: key, Fields: api.Fields{"spec.replicas": api.Int(count)}, MustExist: true,
			})
		},
	}
	cmd.Flags().StringVar(&replicas, "replicas", "", "how many pods")
	return cmd
}
