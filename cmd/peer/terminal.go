package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	apiv1 "starling.dev/starling/api/v1"
)

// rawTerminal hands the terminal over to a command: each key goes to it as it is typed,
// and it learns the terminal's size now and whenever that changes. The caller runs
// restore when the command has ended.
func (c *cli) rawTerminal(ctx context.Context, start *apiv1.ExecStart, s *execStream) (restore func(), err error) {
	in, ok := c.in.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return nil, errors.New("-t takes a terminal, and the standard input is none; leave -t out")
	}
	fd := int(in.Fd())
	start.Size = terminalSize(fd)
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, fmt.Errorf("make the terminal raw: %w", err)
	}
	resized := make(chan os.Signal, 1) // one is enough: the size is read afterwards
	signal.Notify(resized, syscall.SIGWINCH)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for {
			select {
			case <-resized:
				s.send(&apiv1.ExecInput{Resize: terminalSize(fd)})
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		signal.Stop(resized)
		_ = term.Restore(fd, before) // what can't be restored is gone
	}, nil
}

func terminalSize(fd int) *apiv1.TerminalSize {
	width, height, err := term.GetSize(fd)
	if err != nil {
		return nil // the command gets its system's default
	}
	return &apiv1.TerminalSize{Width: uint32(width), Height: uint32(height)}
}
