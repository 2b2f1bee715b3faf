package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client/text"
)

func eventsCommand(c *cli) *cobra.Command {
	var follow bool
	var loop, since, output string
	var authors api.Authors
	cmd := &cobra.Command{
		Use: "events [OBJ]", Short: "What loops did",
		Long:              "List the results of steps on all machines, oldest first.",
		Example:           "  peer events web -f",
		Args:              objectArgs(0, 1),
		ValidArgsFunction: c.completeObject,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := c.anyObject(cmd.Context(), args)
			if err != nil {
				return err
			}
			if err := oneOf("-o", output, "", "json"); err != nil {
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
			events, err := p.Events(cmd.Context(), &apiv1.EventsRequest{Key: key, Follow: follow, Loop: loop, SinceMs: from, By: authors.By, NotBy: authors.NotBy})
			if err != nil {
				return err
			}
			defer events.Close()
			any := false
			for ; events.Receive(); any = true {
				if err := c.printEvent(events.Msg(), output); err != nil {
					return err
				}
			}
			if !any && events.Err() == nil {
				c.say("there are no such events")
			}
			return ended(events.Err())
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on as they happen")
	cmd.Flags().StringVar(&loop, "loop", "", "only of this loop")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json: an object in each line")
	byAuthors(cmd, &authors)
	cmd.Flags().StringVar(&since, "since", "", "only the last `TIME`, as in 10m, or since a time as in 2006-01-02T15:04:05Z")
	return cmd
}

func (c *cli) printEvent(e *apiv1.Event, output string) error {
	if output == "" {
		c.print(c.style().Event(e))
		return nil
	}
	line, err := text.MessageLine(e)
	c.print(line)
	return err
}

// ended is the error of a stream that ended, nil for one that came to its end.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
