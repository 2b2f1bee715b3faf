package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

// completeTimeout bounds how long a shell hangs at the Tab key.
const completeTimeout = 500 * time.Millisecond

// objectNames asks the peer for the objects of a kind, of all kinds for "". A shell has
// no use for errors.
func (c *cli) objectNames(cmd *cobra.Command, kind string) []*apiv1.Key {
	ctx, cancel := context.WithTimeout(contextOf(cmd), completeTimeout)
	defer cancel()
	p, err := c.dial()
	if err != nil {
		return nil
	}
	defer p.Close()
	got, err := p.Get(ctx, &apiv1.GetRequest{Kind: kind})
	if err != nil {
		return nil
	}
	var keys []*apiv1.Key
	for _, o := range got.GetObjects() {
		keys = append(keys, o.GetKey())
	}
	return keys
}

func contextOf(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}

// completeObjects completes any number of objects: in full, and pods in the default
// namespace by their bare names, as long as no kind is begun.
func (c *cli) completeObjects(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	var words []string
	for _, k := range c.objectNames(cmd, "") {
		full := client.KeyOf(k).String()
		words = append(words, full)
		if name, ok := strings.CutPrefix(full, "pod/"); ok && !strings.Contains(name, "/") && begun != "" {
			words = append(words, name)
		}
	}
	return startingWith(begun, words), cobra.ShellCompDirectiveNoFileComp
}

// completeObject completes the first argument only.
func (c *cli) completeObject(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return c.completeObjects(cmd, args, begun)
	case 1:
		return c.completeNames(cmd, args[0], begun)
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeGet completes a kind or an object.
func (c *cli) completeGet(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	words, directive := c.completeObject(cmd, args, begun)
	if len(args) == 0 {
		kinds, _ := c.completeKinds(cmd, args, begun)
		words = append(kinds, words...)
	}
	return words, directive
}

func (c *cli) completeKinds(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(contextOf(cmd), completeTimeout)
	defer cancel()
	kinds := api.Kinds()
	if all, err := c.catalog(ctx); err == nil {
		kinds = all.Kinds()
	}
	var words []string
	for _, k := range kinds {
		words = append(words, k.Plural)
	}
	return startingWith(begun, words), cobra.ShellCompDirectiveNoFileComp
}

// completeSwitch completes an object, then one of the targets of its kind.
func (c *cli) completeSwitch(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return c.completeObject(cmd, args, begun)
	}
	ctx, cancel := context.WithTimeout(contextOf(cmd), completeTimeout)
	defer cancel()
	key, err := c.parseKey(ctx, args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return startingWith(begun, c.targetsOf(ctx, key.Kind)), cobra.ShellCompDirectiveNoFileComp
}

func (c *cli) completeMachine(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.completeNames(cmd, "Machine", begun)
}

// completeNames completes the names of a kind's objects, with the namespace of those that
// have another than the default.
func (c *cli) completeNames(cmd *cobra.Command, kind, begun string) ([]string, cobra.ShellCompDirective) {
	var words []string
	if k, ok := c.kind(contextOf(cmd), kind); ok {
		for _, key := range c.objectNames(cmd, k.Name) {
			_, name, _ := strings.Cut(client.KeyOf(key).String(), "/")
			words = append(words, name)
		}
	}
	return startingWith(begun, words), cobra.ShellCompDirectiveNoFileComp
}

func startingWith(begun string, words []string) []string {
	var fitting []string
	for _, w := range words {
		if strings.HasPrefix(w, begun) {
			fitting = append(fitting, w)
		}
	}
	return fitting
}
