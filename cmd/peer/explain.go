package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"starling.dev/starling/api"
)

func explainCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "explain FIELD|CODE", Short: "What a field or an error code means, and who owns it",
		Example: "  peer explain pod.spec.containers.*.image\n  peer explain NoMachineFits",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name a kind or a field, as in peer explain pod.spec")
			}
			return nil
		},
		ValidArgsFunction: c.completeKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			if code, ok := api.CodeByName(args[0]); ok {
				c.print(fmt.Sprintf("%s\n\n%s\n%s\n", code.Name, code.Doc, code.Do))
				return nil
			}
			first, _, _ := strings.Cut(args[0], ".")
			kinds := api.Builtin()
			if _, builtin := api.KindByName(first); !builtin || strings.HasSuffix(args[0], "."+targetField) {
				if all, err := c.catalog(cmd.Context()); err == nil {
					kinds = all
				}
			}
			text, err := kinds.Explain(args[0])
			c.print(text)
			return err
		},
	}
}
