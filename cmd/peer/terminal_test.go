package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	apiv1 "starling.dev/starling/api/v1"
)

// openTerminal makes a pseudo terminal: what is typed into keyboard is read from
// terminal.
func openTerminal(t *testing.T) (keyboard, terminal *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this system gives no pseudo terminal: %v", err)
	}
	t.Cleanup(func() { keyboard.Close() })
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err := errors.Join(err, unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0)); err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return keyboard, terminal
}

func resize(t *testing.T, terminal *os.File, width, height uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height}); err != nil {
		t.Fatal(err)
	}
}

// With -t each key arrives as it is typed, Ctrl-C too; the command learns the size at
// its start and when it changes; and afterwards the terminal is as it was.
func TestExecHandsTheTerminalOver(t *testing.T) {
	keyboard, terminal := openTerminal(t)
	resize(t, terminal, 80, 24)
	before, err := term.GetState(int(terminal.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{exec: func(s *connect.BidiStream[apiv1.ExecInput, apiv1.ExecOutput]) error {
		first, err := s.Receive()
		if err != nil {
			return err
		}
		if size := first.GetStart().GetSize(); !first.GetStart().GetTty() || size.GetWidth() != 80 || size.GetHeight() != 24 {
			t.Errorf("it starts as %v, want a terminal of 80x24", first.GetStart())
		}
		if _, err := io.WriteString(keyboard, "\x03"); err != nil {
			return err
		}
		resize(t, terminal, 100, 30)
		if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
			return err
		}
		for typed, resized := false, false; !typed || !resized; {
			in, err := s.Receive()
			if err != nil {
				return err
			}
			typed = typed || string(in.GetStdin()) == "\x03"
			resized = resized || in.GetResize().GetWidth() == 100 && in.GetResize().GetHeight() == 30
		}
		return s.Send(&apiv1.ExecOutput{Exited: true})
	}}
	execute(t, f.serve(t), typed{args: []string{"exec", "-it", "web", "--", "sh"}, in: terminal}).wantOut(t)
	after, err := term.GetState(int(terminal.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if *after != *before {
		t.Errorf("the terminal was %+v, and is left as %+v", before, after)
	}
}
