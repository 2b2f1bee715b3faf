package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

// oneObject reads the object of commands that are about one: OBJ, or KIND NAME.
func (c *cli) oneObject(ctx context.Context, args []string) (*apiv1.Key, error) {
	if len(args) > 1 {
		named := c.withKind(ctx, args)
		if len(named) > 1 {
			return nil, fmt.Errorf("name one object; %q would be KIND NAME, and %s", strings.Join(args, " "), c.known(ctx).Unknown(args[0]))
		}
		args = named
	}
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

// someObjects is anyObject for commands that take a kind, too: all objects of it.
func (c *cli) someObjects(ctx context.Context, args []string) (*apiv1.Key, error) {
	if len(args) == 1 {
		if k, ok := c.kind(ctx, args[0]); ok {
			return &apiv1.Key{Kind: k.Name}, nil
		}
	}
	return c.anyObject(ctx, args)
}

// withKind reads KIND NAME..., which habit types, as KIND/NAME...; other words stay as they are.
func (c *cli) withKind(ctx context.Context, args []string) []string {
	if len(args) < 2 || strings.Contains(args[0], "/") {
		return args
	}
	k, ok := c.kind(ctx, args[0])
	if !ok {
		if k, ok, _ = c.known(ctx).Counterpart(args[0]); !ok {
			return args
		}
	}
	var named []string
	for _, name := range args[1:] {
		word, _, full := strings.Cut(name, "/")
		if _, ok := c.kind(ctx, word); full && ok {
			return args
		}
		named = append(named, strings.ToLower(k.Name)+"/"+name)
	}
	return named
}

// objectArgs takes between least and most objects, and says so in our words. One object may
// be two words, KIND NAME.
func objectArgs(least, most int) cobra.PositionalArgs {
	if most == 1 {
		most = 2
	}
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

// oneOf refuses a word that is not among those that there are. An empty one stands for what
// is done without the flag.
func oneOf(flag, word string, words ...string) error {
	if slices.Contains(words, word) {
		return nil
	}
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" })
	last := len(words) - 1
	if last == 0 {
		return fmt.Errorf("%s %q: there is only %s", flag, word, words[0])
	}
	return fmt.Errorf("%s %q: there are only %s and %s", flag, word, strings.Join(words[:last], ", "), words[last])
}
