package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"starling.dev/starling/api"
	"starling.dev/starling/compose"
)

func importCommand(c *cli) *cobra.Command {
	o := compose.Options{Namespace: api.DefaultNamespace}
	cmd := &cobra.Command{
		Use: "import FILE…", Short: "Say what Compose files mean in specs, to apply",
		Long: "Read Compose files (later ones override earlier ones) and print what they mean as specs. Nothing is applied.\n" +
			"What has no counterpart is left out, and listed on the standard error output.",
		Example: "  peer import compose.yaml > shop.yaml\n  peer import compose.yaml | peer apply -f -",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Files, o.Environment = args, os.Environ()
			objects, left, err := compose.Read(cmd.Context(), o)
			if err != nil {
				return err
			}
			var documents []string
			for _, object := range objects {
				documents = append(documents, string(api.Render(object.Key, object.Fields)))
			}
			c.print(strings.Join(documents, "---\n"))
			for _, l := range left {
				fmt.Fprintf(c.errs, "left out: %s\n", l)
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&o.Namespace, "namespace", "n", o.Namespace, "the namespace of the objects")
	cmd.Flags().StringSliceVar(&o.Profiles, "profile", nil, "profiles whose services are wanted, too")
	return cmd
}
