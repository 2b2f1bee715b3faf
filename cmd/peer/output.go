package main

import (
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"starling.dev/starling/client/text"
)

// outputFlag adds -o of commands whose answers programs may want whole.
func outputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "", "json or yaml")
}

// knownOutput refuses another -o before anything is done.
func knownOutput(output string) error { return oneOf("-o", output, "", "json", "yaml") }

// printMessage prints a whole answer for programs.
func (c *cli) printMessage(m proto.Message, output string) error {
	if err := oneOf("-o", output, "json", "yaml"); err != nil {
		return err
	}
	encode := text.MessageJSON
	if output == "yaml" {
		encode = text.MessageYAML
	}
	shown, err := encode(m)
	c.print(shown)
	return err
}
