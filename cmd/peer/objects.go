package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

// oneObject reads the one argument of commands that are about one object.
func (c *cli) oneObject(ctx context.Context, args []string) (*apiv1.Key, error) {
	key, err := c.parseKey(ctx, args[0])
	if err != nil {
		return nil, err
	}
	return client.KeyTo(key), nil
}

// anyObject is oneObject for commands that without an argument are about all objects.
func (c *cli) anyObject(ctx context.Context, args []string) (*apiv1.Key, error) {
	if len(args) == 0 {
		return &apiv1.Key{}, nil
	}
	return c.oneObject(ctx, args)
}

// objectArgs takes between least and most objects, and says so in our words.
func objectArgs(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return fmt.Errorf("name the object: %s", cmd.UseLine())
		case most >= 0 && len(args) > most:
			return fmt.Errorf("%q is too much: %s", args[most], cmd.UseLine())
		}
		return nil
	}
}

// oneOf refuses a word that is not among those that there are.
func oneOf(flag, word string, words ...string) error {
	if slices.Contains(words, word) {
		return nil
	}
	return fmt.Errorf("%s %q: there are only %q", flag, word, words)
}
