package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
	"starling.dev/starling/lab"
)

// labFlags choose the lab and describe a new one.
type labFlags struct {
	name        string
	nodes       int
	cpu, memory []string
	network     string
	wireguard   bool
}

func (f *labFlags) open(c *cobra.Command) (*lab.Lab, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the peer's own program: %w", err)
	}
	return lab.Open(lab.Config{
		Name: f.name, Nodes: f.nodes, CPU: f.cpu, Memory: f.memory, Network: f.network, WireGuard: f.wireguard, Program: self, Runtime: labRuntime{},
		Progress: func(format string, args ...any) { fmt.Fprintf(c.ErrOrStderr(), format+"\n", args...) },
	})
}

// labCommand groups what is done with a cluster on this computer.
func labCommand() *cobra.Command {
	f := &labFlags{}
	c := group(&cobra.Command{Use: "lab", Short: "Run a cluster of several machines on this computer"})
	c.PersistentFlags().StringVar(&f.name, "name", client.DefaultLab, "name of the lab")
	c.AddCommand(f.up(), f.down(), f.status(), f.exec(), f.kill(), f.start(), f.partition(), f.heal(), f.loss(), f.log())
	return c
}

func (f *labFlags) up() *cobra.Command {
	c := &cobra.Command{
		Use: "up", Short: "Bring up a lab; one that exists is brought up as it was", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := f.open(c)
			if err != nil {
				return err
			}
			if err := l.Up(c.Context()); err != nil {
				return err
			}
			first := "1"
			if f.name != client.DefaultLab {
				first = f.name + "/1"
			}
			fmt.Fprintf(c.OutOrStdout(), "Lab %s runs with %d machines. Try: peer --lab %s machine ls\n", f.name, l.Nodes(), first)
			return nil
		},
	}
	c.Flags().IntVar(&f.nodes, "nodes", 3, "how many machines")
	c.Flags().StringVar(&f.network, "network", "", "where pods have their addresses from: routed, lan or cloud (default routed)")
	c.Flags().StringSliceVar(&f.cpu, "cpu", nil, "cores that each machine offers, by number; the last counts for the rest")
	c.Flags().StringSliceVar(&f.memory, "memory", nil, "memory that each machine offers, by number; the last counts for the rest")
	c.Flags().BoolVar(&f.wireguard, "wireguard", false, "send what is between the machines through WireGuard")
	return c
}

func (f *labFlags) down() *cobra.Command {
	return &cobra.Command{
		Use: "down", Short: "Remove the lab and everything in it", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := f.open(c)
			if err != nil {
				return err
			}
			return l.Down(c.Context())
		},
	}
}

// simple makes a command that needs nothing but the lab and its arguments.
func (f *labFlags) simple(use, short string, args cobra.PositionalArgs, do func(context.Context, *lab.Lab, []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: args,
		RunE: func(c *cobra.Command, args []string) error {
			l, err := f.open(c)
			if err != nil {
				return err
			}
			if !l.Exists() {
				return f.missing()
			}
			return do(c.Context(), l, args)
		},
	}
}

func (f *labFlags) missing() error {
	name := ""
	if f.name != client.DefaultLab {
		name = " --name " + f.name
	}
	return fmt.Errorf("there is no lab %s; make one with `peer lab up --nodes 3%s`", f.name, name)
}

func (f *labFlags) kill() *cobra.Command {
	var peerOnly bool
	c := f.simple("kill N", "Cut the power of machine N", cobra.ExactArgs(1), func(ctx context.Context, l *lab.Lab, args []string) error {
		n, err := machineNumber(args[0])
		if err != nil {
			return err
		}
		if peerOnly {
			return l.KillPeer(n)
		}
		return l.Kill(ctx, n)
	})
	c.Flags().BoolVar(&peerOnly, "peer", false, "kill -9 the peer only; its pods go on running")
	return c
}

func (f *labFlags) start() *cobra.Command {
	return f.simple("start N", "Boot machine N again", cobra.ExactArgs(1), func(ctx context.Context, l *lab.Lab, args []string) error {
		n, err := machineNumber(args[0])
		if err != nil {
			return err
		}
		return l.Start(ctx, n)
	})
}

func (f *labFlags) partition() *cobra.Command {
	return f.simple("partition GROUPS", "Cut the machines into groups, as in 1,2/3", cobra.ExactArgs(1), func(_ context.Context, l *lab.Lab, args []string) error {
		var groups [][]int
		rest := map[int]bool{}
		for n := range l.Nodes() {
			rest[n+1] = true
		}
		for g := range strings.SplitSeq(args[0], "/") {
			var group []int
			for s := range strings.SplitSeq(g, ",") {
				n, err := machineNumber(s)
				if err != nil {
					return err
				}
				group = append(group, n)
				delete(rest, n)
			}
			groups = append(groups, group)
		}
		if err := l.Partition(groups); err != nil || len(rest) == 0 {
			return err
		}
		_, err := fmt.Fprintf(os.Stderr, "the machines that you did not name are one more group: %s\n", numbers(rest))
		return err
	})
}

func numbers(set map[int]bool) string {
	var words []string
	for _, n := range slices.Sorted(maps.Keys(set)) {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ",")
}

func (f *labFlags) heal() *cobra.Command {
	return f.simple("heal", "End every partition", cobra.NoArgs, func(_ context.Context, l *lab.Lab, _ []string) error { return l.Heal() })
}

func (f *labFlags) loss() *cobra.Command {
	return f.simple("loss PERCENT", "Make every machine lose packets, as in 5%; 0 ends it", cobra.ExactArgs(1), func(_ context.Context, l *lab.Lab, args []string) error {
		percent, err := strconv.ParseFloat(strings.TrimSuffix(args[0], "%"), 64)
		if err != nil || percent < 0 || percent > 100 {
			return fmt.Errorf("loss %q: give a percentage between 0 and 100", args[0])
		}
		return l.Loss(percent)
	})
}

func (f *labFlags) log() *cobra.Command {
	return f.simple("log N", "Print the log of machine N's peer", cobra.ExactArgs(1), func(_ context.Context, l *lab.Lab, args []string) error {
		n, err := machineNumber(args[0])
		if err != nil {
			return err
		}
		raw, err := os.ReadFile(l.Log(n))
		if err != nil {
			return err
		}
		_, err = os.Stdout.Write(raw)
		return err
	})
}

func (f *labFlags) status() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Tell which machines of the lab run", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := f.open(c)
			if err != nil {
				return err
			}
			if !l.Exists() {
				return f.missing()
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "MACHINE\tPID\tADDRESS\tPODS\tSEES")
			for n := 1; n <= l.Nodes(); n++ {
				fmt.Fprintln(w, labLine(c.Context(), l, n))
			}
			return w.Flush()
		},
	}
}

func labLine(ctx context.Context, l *lab.Lab, n int) string {
	pid := l.PID(n)
	if pid == 0 {
		return fmt.Sprintf("%s\t-\t%s\t-\tdown", lab.Name(n), l.Address(n))
	}
	got, err := l.Client(n).Machines(ctx, &apiv1.MachinesRequest{})
	if err != nil {
		return fmt.Sprintf("%s\t%d\t%s\t-\t%v", lab.Name(n), pid, l.Address(n), err)
	}
	pods, alive := uint32(0), 0
	for _, m := range got.GetMachines() {
		if m.GetSelf() {
			pods = m.GetPods()
		}
		if m.GetAlive() {
			alive++
		}
	}
	return fmt.Sprintf("%s\t%d\t%s\t%d\t%d of %d machines", lab.Name(n), pid, l.Address(n), pods, alive, len(got.GetMachines()))
}

func (f *labFlags) exec() *cobra.Command {
	return f.simple("exec N -- COMMAND", "Run a command in the network of machine N", cobra.MinimumNArgs(2), func(ctx context.Context, l *lab.Lab, args []string) error {
		n, err := machineNumber(args[0])
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, args[1], args[2:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		// Other commands of ours speak to the machine's peer.
		cmd.Env = append(os.Environ(), client.SocketEnv+"="+l.Socket(n), fmt.Sprintf("%s=%s/%d", labEnv, f.name, n))
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		signal.Ignore(os.Interrupt) // the command decides
		if err := l.Within(n, cmd.Start); err != nil {
			return err
		}
		err = cmd.Wait()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return &exitStatus{code: exit.ExitCode()}
		}
		return err
	})
}

func machineNumber(s string) (int, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(s, "m"))
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is no machine of a lab; they are numbered from 1", s)
	}
	return n, nil
}
