package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
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
			who := c.whoUses(cmd.Context(), kinds, args[0])
			if text == "" && who.GetLoop() != "" { // a field of a foreign loop stands in no table
				c.print(args[0] + "\n\n")
				err = nil
			}
			c.print(usedBy(who))
			return err
		},
	}
}

// explainTimeout is how long the peer has: what a field means is known without it.
const explainTimeout = 2 * time.Second

// whoUses asks the peer which steps read and write a field; nil if there is no answer.
func (c *cli) whoUses(ctx context.Context, kinds *api.Catalog, field string) *apiv1.ExplainResponse {
	first, path, _ := strings.Cut(field, ".")
	kind, ok := kinds.KindByName(first)
	if !ok || path == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	p, err := c.dial()
	if err != nil {
		return nil
	}
	defer p.Close()
	got, err := p.Explain(ctx, &apiv1.ExplainRequest{Kind: kind.Name, Path: path})
	if err != nil {
		return nil
	}
	return got
}

func usedBy(who *apiv1.ExplainResponse) (text string) {
	if who.GetLoop() != "" {
		text = fmt.Sprintf("written by step %s of loop %s, within %d entries about one object at once\n", who.GetStep(), who.GetLoop(), who.GetEntries())
	}
	if len(who.GetReaders()) > 0 {
		text += "read by " + strings.Join(who.GetReaders(), ", ") + "\n"
	}
	return text
}
