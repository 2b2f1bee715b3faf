package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"starling.dev/starling/oci/testimage"
)

// demoImageCommand wraps a static program into an image, for the demo and the tests:
// neither needs a registry.
func demoImageCommand() *cobra.Command {
	var out string
	o := testimage.Options{}
	c := &cobra.Command{
		Use: "demo-image PROGRAM", Short: "Make an image of one static program", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o.Binary = args[0]
			f, err := os.Create(out)
			if err != nil {
				return fmt.Errorf("make the image: %w", err)
			}
			if err := testimage.Build(c.Context(), f, o); err != nil {
				f.Close()
				return err
			}
			return f.Close()
		},
	}
	c.Flags().StringVarP(&out, "out", "o", "image.tar", "the archive to write")
	c.Flags().StringVar(&o.Ref, "ref", "localhost/hello:1", "the image's name")
	return c
}
