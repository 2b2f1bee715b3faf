package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

func forwardCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "forward OBJ LOCAL:REMOTE", Short: "Reach a pod's port from this computer",
		Long:              "Listen on a port of this computer, on its loopback addresses, and carry each connection to a port of the pod.",
		Example:           "  peer forward web 8080:8080\n  peer forward web 0:8080",
		Args:              forwardArgs,
		ValidArgsFunction: c.completeObject,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := c.oneObject(cmd.Context(), args[:1])
			if err != nil {
				return err
			}
			local, remote, err := parsePorts(args[1])
			if err != nil {
				return err
			}
			return c.forward(cmd.Context(), key, local, remote)
		},
	}
}

func forwardArgs(cmd *cobra.Command, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("name a pod and its ports: %s", cmd.UseLine())
	}
	return nil
}

// parsePorts reads "LOCAL:REMOTE", or "PORT" for both. Local port 0 is any free one.
func parsePorts(s string) (local, remote uint16, err error) {
	first, second, two := strings.Cut(s, ":")
	if !two {
		second = first
	}
	l, errL := strconv.ParseUint(first, 10, 16)
	r, errR := strconv.ParseUint(second, 10, 16)
	if errL != nil || errR != nil || r == 0 {
		return 0, 0, fmt.Errorf("%q: write two ports, between 1 and 65535, as in 8080:80", s)
	}
	return uint16(l), uint16(r), nil
}

func (c *cli) forward(ctx context.Context, key *apiv1.Key, local, remote uint16) error {
	p, err := c.dial()
	if err != nil {
		return err
	}
	defer p.Close()
	if _, err := c.getOne(ctx, key); err != nil {
		return err
	}
	listeners, err := listenLoopback(local)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, l := range listeners {
		c.say("%s leads to port %d of %s", l.Addr(), remote, client.KeyOf(key))
		group.Go(func() error {
			<-ctx.Done()
			return l.Close()
		})
		group.Go(func() error { return c.accept(ctx, l, p, key, remote) })
	}
	if err := group.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// listenLoopback listens on both loopback addresses; a computer may have only one.
func listenLoopback(port uint16) ([]net.Listener, error) {
	first, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return nil, fmt.Errorf("listen on port %d of this computer: %w", port, err)
	}
	_, chosen, err := net.SplitHostPort(first.Addr().String())
	if err != nil {
		return nil, fmt.Errorf("read the port that was given: %w", err)
	}
	listeners := []net.Listener{first}
	if second, err := net.Listen("tcp", net.JoinHostPort("::1", chosen)); err == nil {
		listeners = append(listeners, second)
	}
	return listeners, nil
}

// accept carries each connection by itself: one that fails concerns no other.
func (c *cli) accept(ctx context.Context, l net.Listener, p *client.Client, key *apiv1.Key, port uint16) error {
	var group errgroup.Group
	defer group.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		group.Go(func() error {
			if err := carry(ctx, conn, p, key, port); err != nil && ctx.Err() == nil {
				c.say("peer: connection from %s: %v", conn.RemoteAddr(), client.AsError(err))
			}
			return nil
		})
	}
}

// carry copies both ways until the pod closes the connection. The end of our side is
// told, and the pod's answer to it still awaited.
func carry(ctx context.Context, conn net.Conn, p *client.Client, key *apiv1.Key, port uint16) error {
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := p.Forward(ctx)
	if err != nil {
		return err
	}
	defer stream.CloseResponse()
	if err := stream.Send(&apiv1.ForwardData{Key: key, Port: uint32(port)}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	go func() {
		buf := make([]byte, 32<<10)
		for {
			n, err := conn.Read(buf)
			if n > 0 && stream.Send(&apiv1.ForwardData{Data: buf[:n]}) != nil {
				return
			}
			if errors.Is(err, io.EOF) {
				_ = stream.Send(&apiv1.ForwardData{Close: true}) // receiving tells what is wrong
			}
			if err != nil {
				return
			}
		}
	}()
	for {
		in, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := conn.Write(in.GetData()); err != nil {
			return nil // our side has gone
		}
	}
}
