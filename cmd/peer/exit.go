package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"starling.dev/starling/api"
	"starling.dev/starling/client"
)

// The exit codes of all commands. exec ends with its command's.
const (
	exitOK          = 0
	exitError       = 1
	exitDifference  = 2
	exitProgressing = 3
	exitBlocked     = 4
	exitFailed      = 5
	exitRemoved     = 6
	exitTimedOut    = 124
	exitNotRunnable = 126 // as a shell says it, and 127
	exitNoCommand   = 127
	exitInterrupted = 130
)

const exitCodesHelp = `The exit codes of all commands:

    0   it is done; for plan: nothing would change
    1   an error, which is told on the standard error output
    2   plan: something would change
    3   status, why: progressing
    4   status, why: blocked, until something changes
    5   status, why: failed, and tried again
    6   up, and join where it runs the peer: this machine was removed from its cluster, and starting the peer again is in vain
  124   wait: the time is over
  126   exec: the command can't be run
  127   exec: the container has no such command
  130   the command was interrupted

status and why end with 0 where all is converged; status of several objects ends as the worst of them does. exec ends
with the code of the command that it ran.`

func exitCodesTopic() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: exitCodesHelp}
}

// exitStatus ends the program with a code, and without a message where err is nil.
type exitStatus struct {
	code int
	err  error
}

func (e *exitStatus) Error() string {
	if e.err != nil {
		return e.err.Error()
	}
	return fmt.Sprintf("exit status %d", e.code)
}

func (e *exitStatus) Unwrap() error { return e.err }

// verdictExits are in the order in which one stands for several: the worst first.
var verdictExits = []struct {
	verdict string
	code    int
}{{"blocked", exitBlocked}, {"failed", exitFailed}, {"progressing", exitProgressing}}

// byVerdict ends a command that told where objects stand: nil if all of them converged.
func byVerdict(verdicts ...string) error {
	for _, e := range verdictExits {
		if slices.Contains(verdicts, e.verdict) {
			return &exitStatus{code: e.code}
		}
	}
	return nil
}

// exit reports the error of a command, if there is one, and returns the exit code.
func (c *cli) exit(ctx context.Context, err error) int {
	if err == nil {
		return exitOK
	}
	code := exitError
	if status := (*exitStatus)(nil); errors.As(err, &status) {
		if status.err == nil {
			return status.code
		}
		code, err = status.code, status.err
	}
	err = client.AsError(err)
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || isCanceled(err)) {
		return exitInterrupted
	}
	c.say("peer: %s", strings.TrimSuffix(err.Error(), "\n"))
	if todo := remedy(err); todo != "" {
		c.say("%s", todo)
	}
	return code
}

// remedy is what the code of an error tells to do, where the message does not yet.
func remedy(err error) string {
	said := (*api.Error)(nil)
	if !errors.As(err, &said) || len(said.Problems) > 0 || strings.Contains(said.Message, "`peer ") {
		return ""
	}
	switch said.Code {
	case api.Invalid, api.SpecInvalid, api.NotFound, api.Internal: // the message says all that there is to say
		return ""
	}
	doc, _ := api.CodeByName(said.Code)
	return doc.Do
}

// isCanceled: the call ended because we were asked to stop.
func isCanceled(err error) bool { return connect.CodeOf(err) == connect.CodeCanceled }
