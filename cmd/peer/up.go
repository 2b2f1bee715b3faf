package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"starling.dev/starling/api"
	"starling.dev/starling/client"
	"starling.dev/starling/daemon"
)

// upCommand runs a peer in the foreground.
func upCommand() *cobra.Command {
	f := &daemonFlags{}
	c := &cobra.Command{
		Use:   "up",
		Short: "Run a peer here; on a new data directory, begin a cluster",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := f.config()
			if err != nil {
				return err
			}
			return runPeer(c.Context(), cfg)
		},
	}
	f.add(c)
	c.Flags().StringVar(&f.cfg.Cluster, "cluster", "", "name of a cluster that begins here (default starling)")
	c.Flags().StringVar(&f.cfg.Network, "network", "", "where pods of a cluster that begins here have their addresses from: routed (each machine's own prefix, routed by the others), lan (the LAN's own prefix), or cloud (what a loop called cloud allocates) (default routed)")
	return c
}

// runPeer runs until the context ends: SIGTERM stops a peer and leaves its pods running.
func runPeer(ctx context.Context, cfg daemon.Config) error {
	d, err := daemon.Open(ctx, cfg)
	if err == nil {
		err = d.Run(ctx)
	}
	if client.Is(err, api.MachineRemoved) {
		return &exitStatus{exitRemoved, err}
	}
	return err
}

// joinCommand makes this machine a member and runs the peer.
func joinCommand() *cobra.Command {
	f := &daemonFlags{}
	var req daemon.JoinRequest
	var replace string
	var stay bool
	c := &cobra.Command{
		Use:   "join [ADDR] --token TOKEN",
		Short: "Join the cluster that a token invites to, and run the peer",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				req.Addr = args[0]
			}
			if req.Token == "" {
				return errors.New("write --token TOKEN with what `peer invite` prints on a machine of the cluster")
			}
			if replace != "" {
				f.cfg.Name, req.Replace = replace, true
			}
			cfg, err := f.config()
			if err != nil {
				return err
			}
			warning, err := daemon.Join(c.Context(), cfg, req)
			if err != nil {
				return err
			}
			fmt.Fprintln(c.ErrOrStderr(), "This machine is a member of the cluster now.")
			if warning != "" {
				fmt.Fprintln(c.ErrOrStderr(), warning)
			}
			if stay {
				return nil
			}
			return runPeer(c.Context(), cfg)
		},
	}
	f.add(c)
	c.Flags().StringVar(&req.Token, "token", "", "the token that `peer invite` printed")
	c.Flags().StringVar(&replace, "replace", "", "name of the dead machine whose place this one takes")
	c.Flags().BoolVar(&stay, "no-run", false, "join only; run the peer later with `peer up`")
	return c
}

// guardCommand is the process that kills a leased pod's containers when its lease ends.
func guardCommand(run func([]string) error) *cobra.Command {
	return &cobra.Command{
		Use: "guard ARG", Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error { return run(args) },
	}
}

// loggerCommand is the process that takes a container's output.
func loggerCommand(run func([]string) error) *cobra.Command {
	return &cobra.Command{
		Use: "logger ARG", Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error { return run(args) },
	}
}
