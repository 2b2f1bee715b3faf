package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
)

func historyCommand(c *cli) *cobra.Command {
	var authors api.Authors
	var since, output string
	var diff bool
	cmd := &cobra.Command{
		Use: "history [OBJ]", Short: "Who changed what",
		Long:              "List who changed what, the latest first, for one object or for the whole cluster. The rev that holds is marked *.",
		Example:           "  peer history web --diff\n  peer history --by 'user:*' --since 1h",
		Args:              objectArgs(0, 1),
		ValidArgsFunction: c.completeObject,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := c.anyObject(cmd.Context(), args)
			if err != nil {
				return err
			}
			from, err := c.since(since)
			if err != nil {
				return err
			}
			p, err := c.dial()
			if err != nil {
				return err
			}
			defer p.Close()
			got, err := p.History(cmd.Context(), &apiv1.HistoryRequest{Key: key, By: authors.By, NotBy: authors.NotBy, SinceMs: from, Diff: diff})
			if err != nil {
				return err
			}
			if output != "" {
				return c.printMessage(got, output)
			}
			c.print(c.style().History(got.GetEntries(), diff))
			c.view(got.GetView())
			return nil
		},
	}
	byAuthors(cmd, &authors)
	cmd.Flags().StringVar(&since, "since", "", "only the last `TIME`, as in 1h, or since a time as in 2006-01-02T15:04:05Z")
	cmd.Flags().BoolVar(&diff, "diff", false, "show the fields that each change altered")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml")
	return cmd
}

// since reads a duration before now, or a time, in Unix milliseconds; 0 for nothing.
func (c *cli) since(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t.UnixMilli(), nil
	}
	d, err := api.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("--since: %w; or give a time as in 2006-01-02T15:04:05Z", err)
	}
	return c.now().Add(-d).UnixMilli(), nil
}
