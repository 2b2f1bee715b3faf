package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
	"starling.dev/starling/client/text"
)

// byAuthors adds the selector of authors.
func byAuthors(cmd *cobra.Command, a *api.Authors) {
	cmd.Flags().StringArrayVar(&a.By, "by", nil, "only by these authors, as in user:alice, 'user:*' or loop:image")
	cmd.Flags().StringArrayVar(&a.NotBy, "not-by", nil, "not by these authors")
}

// follow prints objects as they are, and again whenever one of the authors changes them.
func (c *cli) follow(ctx context.Context, req *apiv1.GetRequest, authors api.Authors, output string) error {
	if err := oneOf("-o", output, "", "name", "json"); err != nil {
		return err
	}
	p, err := c.dial()
	if err != nil {
		return err
	}
	defer p.Close()
	states, err := p.Watch(ctx, &apiv1.WatchRequest{
		Kind: req.GetKind(), Namespace: req.GetNamespace(), Name: req.GetName(), By: authors.By, NotBy: authors.NotBy,
	})
	if err != nil {
		return err
	}
	defer states.Close()
	for states.Receive() {
		if err := c.printWatched(states.Msg(), output); err != nil {
			return err
		}
	}
	if err := ended(states.Err()); err != nil {
		return err
	}
	return errors.New("the peer ended while it was watched")
}

func (c *cli) printWatched(o *apiv1.ObjectState, output string) error {
	switch {
	case output == "name":
		c.print(client.KeyOf(o.GetObject().GetKey()).String() + "\n")
	case output == "json" && !o.GetGone():
		shown, err := text.ObjectJSON(o.GetObject())
		if err != nil {
			return err
		}
		c.print(shown)
	default:
		c.print(c.style().Watched(o))
	}
	return nil
}
