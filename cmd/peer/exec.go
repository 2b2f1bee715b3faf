package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

func execCommand(c *cli) *cobra.Command {
	start := &apiv1.ExecStart{}
	var stdin bool
	cmd := &cobra.Command{
		Use: "exec [-it] OBJ -- COMMAND", Short: "Run a command in a container",
		Long:              "Run a command in a container, on whatever machine that is, and end with its exit code.",
		Example:           "  peer exec -it web -- /bin/sh\n  peer exec web -- cat /etc/hosts",
		Args:              execArgs,
		ValidArgsFunction: c.completeObject,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if start.Key, err = c.oneObject(cmd.Context(), args[:1]); err != nil {
				return err
			}
			start.Args = args[1:]
			return c.exec(cmd.Context(), start, stdin || start.GetTty())
		},
	}
	cmd.Flags().StringVarP(&start.Container, "container", "c", "", "the container, where there are several")
	cmd.Flags().BoolVarP(&stdin, "stdin", "i", false, "give the command our standard input")
	cmd.Flags().BoolVarP(&start.Tty, "tty", "t", false, "give the command a terminal")
	return cmd
}

func execArgs(cmd *cobra.Command, args []string) error {
	switch dash := cmd.ArgsLenAtDash(); {
	case len(args) < 2:
		return errors.New("name a pod and a command: peer exec OBJ -- COMMAND")
	case dash > 1, dash < 0 && args[1] == "":
		return fmt.Errorf("%q: put -- before the command", args[1])
	}
	return nil
}

// execStream is one command that runs; a stream takes one message at a time.
type execStream struct {
	mu     sync.Mutex // guards sending on stream
	stream *connect.BidiStreamForClientSimple[apiv1.ExecInput, apiv1.ExecOutput]
}

// send leaves the error to receiving, where the peer's reason arrives.
func (s *execStream) send(in *apiv1.ExecInput) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream.Send(in) == nil
}

func (c *cli) exec(ctx context.Context, start *apiv1.ExecStart, stdin bool) error {
	p, err := c.dial()
	if err != nil {
		return err
	}
	defer p.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := p.Exec(ctx)
	if err != nil {
		return err
	}
	s := &execStream{stream: stream}
	if start.GetTty() {
		restore, err := c.rawTerminal(ctx, start, s)
		if err != nil {
			return err
		}
		defer restore()
	}
	s.send(&apiv1.ExecInput{Start: start})
	if stdin {
		// Nothing can interrupt a read of the standard input; it ends with the program.
		go s.feed(c.in)
	} else {
		s.send(&apiv1.ExecInput{CloseStdin: true})
	}
	return c.execOutput(s)
}

// feed sends the input until it ends.
func (s *execStream) feed(in io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := in.Read(buf)
		if n > 0 && !s.send(&apiv1.ExecInput{Stdin: buf[:n]}) {
			return
		}
		if err != nil {
			s.send(&apiv1.ExecInput{CloseStdin: true})
			return
		}
	}
}

// notStarted gives a command that the runtime could not start the exit code that a shell
// would give it. The runtime's words (runc's and crun's) are all that tells.
func notStarted(err error) error {
	if said := err.Error(); strings.Contains(said, "executable file not found") || strings.Contains(said, "no such file or directory") {
		return &exitStatus{code: exitNoCommand, err: err}
	} else if strings.Contains(said, "permission denied") {
		return &exitStatus{code: exitNotRunnable, err: err}
	}
	return err
}

// execOutput copies the command's output until it exits.
func (c *cli) execOutput(s *execStream) error {
	defer s.stream.CloseResponse()
	for {
		out, err := s.stream.Receive()
		if errors.Is(err, io.EOF) {
			return errors.New("the command's machine was lost before the command ended; whether it still runs is not known")
		}
		if err != nil {
			return notStarted(client.AsError(err))
		}
		_, _ = c.out.Write(out.GetStdout())
		_, _ = c.errs.Write(out.GetStderr())
		if out.GetExited() {
			if out.GetExitCode() == 0 {
				return nil
			}
			return &exitStatus{code: int(out.GetExitCode())}
		}
	}
}
