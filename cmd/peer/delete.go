package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

func deleteCommand(c *cli) *cobra.Command {
	var files []string
	var note string
	cmd := &cobra.Command{
		Use: "delete OBJ... | -f FILE", Short: "Delete objects",
		Long:              "Delete objects: all of them, or none. `peer rollback OBJ` brings one back.",
		Example:           "  peer delete web\n  peer delete -f web.yaml",
		ValidArgsFunction: c.completeObjects,
		RunE: func(cmd *cobra.Command, args []string) error {
			keys, err := c.doomed(cmd.Context(), args, files)
			if err != nil {
				return err
			}
			var edits []*apiv1.Edit
			for _, k := range keys {
				edits = append(edits, &apiv1.Edit{Kind: apiv1.EditKind_EDIT_KIND_DELETE, Key: client.KeyTo(k)})
			}
			return c.change(cmd.Context(), note, edits...)
		},
	}
	cmd.Flags().StringArrayVarP(&files, "filename", "f", nil, "delete what a file, a directory, or - names")
	cmd.Flags().StringVarP(&note, "message", "m", "", "a note for the history")
	return cmd
}

func (c *cli) doomed(ctx context.Context, args, files []string) ([]api.Key, error) {
	if len(args) == 0 && len(files) == 0 {
		return nil, errors.New("name an object, or a file with -f: peer delete OBJ... | -f FILE")
	}
	var keys []api.Key
	for _, a := range c.withKind(ctx, args) {
		key, err := c.parseKey(ctx, a)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	if len(files) == 0 {
		return keys, nil
	}
	specs, err := c.readSpecs(ctx, files)
	for _, s := range specs {
		keys = append(keys, s.Key)
	}
	return keys, err
}
