package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

// completeFlags has the values of flags completed, of all commands that have a flag of the
// name.
func (c *cli) completeFlags(cmd *cobra.Command) {
	for flag, complete := range map[string]cobra.CompletionFunc{
		"namespace": c.completeNamespace,
		"container": c.completeContainer,
		"to":        c.completeRev,
		"at":        c.completeRev,
		"output":    completeUsage("output"),
		"sort":      completeWords("cpu", "memory"),
		"mode":      completeWords("fail", "replace", "irreversible"),
		"restart":   completeWords("always", "on-failure", "never"),
		"network":   completeWords("routed", "lan", "cloud"),
	} {
		if cmd.LocalFlags().Lookup(flag) != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag, complete) // fails for a flag that has one
		}
	}
	if cmd.Name() == "wait" {
		_ = cmd.RegisterFlagCompletionFunc("for", c.completeCondition)
	}
	for _, sub := range cmd.Commands() {
		c.completeFlags(sub)
	}
}

func completeWords(words ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return startingWith(begun, words), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeUsage completes the words that the flag's usage lists, as in "json, yaml or wide".
func completeUsage(flag string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		usage := strings.ReplaceAll(cmd.Flag(flag).Usage, " or ", ", ")
		return startingWith(begun, strings.Split(strings.TrimSuffix(usage, ": an object in each line"), ", ")), cobra.ShellCompDirectiveNoFileComp
	}
}

func (c *cli) completeNamespace(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	var words []string
	for _, key := range c.objectNames(cmd, "") {
		if key.GetNamespace() != "" {
			words = append(words, key.GetNamespace())
		}
	}
	slices.Sort(words)
	return startingWith(begun, slices.Compact(words)), cobra.ShellCompDirectiveNoFileComp
}

// named asks for the object that the arguments of a command name, nil if there is none.
func (c *cli) named(cmd *cobra.Command, args []string) *apiv1.Object {
	ctx, cancel := context.WithTimeout(contextOf(cmd), completeTimeout)
	defer cancel()
	if len(args) == 0 {
		return nil
	}
	key, err := c.oneObject(ctx, args)
	if err != nil {
		return nil
	}
	o, err := c.getOne(ctx, key)
	if err != nil {
		return nil
	}
	return o
}

func (c *cli) completeContainer(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return startingWith(begun, api.Fields(c.named(cmd, args).GetFields()).Keys("spec.containers")), cobra.ShellCompDirectiveNoFileComp
}

// completeRev completes the revs of an object, the latest first.
func (c *cli) completeRev(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	var words []string
	if o := c.named(cmd, args); o != nil {
		ctx, cancel := context.WithTimeout(contextOf(cmd), completeTimeout)
		defer cancel()
		p, err := c.dial()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer p.Close()
		got, err := p.History(ctx, &apiv1.HistoryRequest{Key: o.GetKey()})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for _, e := range got.GetEntries() {
			if e.GetRev() != "" && client.KeyOf(e.GetKey()) == client.KeyOf(o.GetKey()) {
				words = append(words, e.GetRev())
			}
		}
	}
	return startingWith(begun, words), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeCondition completes what `peer wait` waits for.
func (c *cli) completeCondition(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	kind := "Pod"
	if len(args) > 0 {
		if key, err := c.oneObject(contextOf(cmd), args[:1]); err == nil {
			kind = key.GetKind()
		}
	}
	words := append(c.targetsOf(contextOf(cmd), kind), "converged")
	return startingWith(begun, words), cobra.ShellCompDirectiveNoFileComp
}
