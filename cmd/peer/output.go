package main

import (
	"google.golang.org/protobuf/proto"

	"starling.dev/starling/client/text"
)

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
