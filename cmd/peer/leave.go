package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
	"starling.dev/starling/daemon"
)

// leaveCommand takes this machine out of its cluster.
func leaveCommand() *cobra.Command {
	f := &daemonFlags{}
	var purge, now bool
	c := &cobra.Command{
		Use:   "leave",
		Short: "Leave the cluster; with --purge, remove everything that the peer keeps here",
		Long: `Leave moves this machine's pods elsewhere, takes the machine's authority back, and stops
the service if the peer was installed as one. With --purge, what the peer kept on this
machine is removed as well: keys, log, containers, networks and volumes.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := f.config()
			if err != nil {
				return err
			}
			if err := leave(c, cfg.Socket, now); err != nil {
				return err
			}
			if err := stopService(c); err != nil {
				return err
			}
			if !purge {
				return nil
			}
			return daemon.Purge(c.Context(), cfg)
		},
	}
	f.add(c)
	c.Flags().BoolVar(&purge, "purge", false, "remove everything that the peer keeps on this machine")
	c.Flags().BoolVar(&now, "now", false, "do not wait until this machine's pods have moved")
	return c
}

// leave asks the running peer. Where none runs there is nobody to say goodbye.
func leave(c *cobra.Command, socket string, now bool) error {
	peer := client.New(socket)
	defer peer.Close()
	got, err := peer.Machines(c.Context(), &apiv1.MachinesRequest{})
	var none *client.NoPeerError
	if errors.As(err, &none) {
		fmt.Fprintln(c.ErrOrStderr(), "No peer runs here; the others are not told. Tell them with `peer machine remove NAME` on another machine.")
		return nil
	}
	if err != nil {
		return err
	}
	if !now && len(got.GetMachines()) > 1 {
		if err := drainSelf(c.Context(), peer, got); err != nil {
			return err
		}
	}
	if _, err := peer.RemoveMachine(c.Context(), &apiv1.RemoveMachineRequest{Self: true, Reason: "it left"}); err != nil {
		return err
	}
	fmt.Fprintln(c.OutOrStdout(), "This machine has left the cluster. A peer in the foreground can be stopped now.")
	return nil
}

// drainPatience bounds the wait for this machine's pods to move.
const drainPatience = 5 * time.Minute

func drainSelf(ctx context.Context, peer *client.Client, got *apiv1.MachinesResponse) error {
	name := ""
	for _, m := range got.GetMachines() {
		if m.GetSelf() {
			name = m.GetName()
		}
	}
	_, err := peer.Apply(ctx, &apiv1.ApplyRequest{Message: "drain before leaving", Edits: []*apiv1.Edit{{
		Kind: apiv1.EditKind_EDIT_KIND_PATCH, Key: &apiv1.Key{Kind: "Machine", Name: name},
		Fields: map[string]string{"lifecycle.target": api.Str(api.TargetDrained)},
	}}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, drainPatience)
	defer cancel()
	for {
		got, err := peer.Machines(ctx, &apiv1.MachinesRequest{})
		if err != nil {
			return err
		}
		left := uint32(0)
		for _, m := range got.GetMachines() {
			if m.GetSelf() {
				left = m.GetPods()
			}
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return api.Errorf(api.TimedOut, "%d pods of this machine found no other place within %s; see `peer status`, or leave with --now", left, drainPatience)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// stopService ends and forgets the systemd service, if there is one.
func stopService(c *cobra.Command) error {
	if _, err := os.Stat(unitPath); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if out, err := exec.CommandContext(c.Context(), "systemctl", "disable", "--now", "starling.service").CombinedOutput(); err != nil {
		return fmt.Errorf("stop the service: %w: %s", err, strings.TrimSpace(string(out)))
	}
	if err := os.Remove(unitPath); err != nil {
		return fmt.Errorf("remove the service: %w", err)
	}
	return nil
}
