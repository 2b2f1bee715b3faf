package main

import "github.com/spf13/cobra"

func applyCommand(c *cli) *cobra.Command {
	var files []string
	var note, output string
	cmd := &cobra.Command{
		Use: "apply -f FILE", Short: "Make objects what the files say",
		Long:    "Make objects what the files say: all of them, or none. What a spec does not name any more is removed from it.",
		Example: "  peer apply -f web.yaml -m 'greet in French'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := knownOutput(output); err != nil {
				return err
			}
			specs, err := c.readSpecs(cmd.Context(), files)
			if err != nil {
				return err
			}
			done, err := c.changed(cmd.Context(), noteOf(note, specs), applyEdits(specs)...)
			switch {
			case err != nil:
				return located(err, specs)
			case output != "":
				return c.printMessage(done, output)
			}
			c.applied(done)
			return nil
		},
	}
	cmd.Flags().StringArrayVarP(&files, "filename", "f", nil, "a file, a directory, or - for the standard input; may be repeated")
	cmd.Flags().StringVarP(&note, "message", "m", "", "a note for the history")
	outputFlag(cmd, &output)
	return cmd
}
