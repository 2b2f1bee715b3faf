package client

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"connectrpc.com/connect"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
)

// NoPeerError says that nobody listens at a socket.
type NoPeerError struct {
	Socket string
	Err    error
}

// Error says what is wrong, and what to do, which depends on the cause.
func (e *NoPeerError) Error() string {
	switch {
	case errors.Is(e.Err, fs.ErrPermission):
		return fmt.Sprintf("the socket %s may only be used by root; run this with sudo", e.Socket)
	case errors.Is(e.Err, fs.ErrNotExist), errors.Is(e.Err, syscall.ECONNREFUSED):
		if lab, machine, ok := labOf(e.Socket); ok {
			return fmt.Sprintf("machine %s of lab %s does not run; `peer lab status --name %s` tells which do", machine, lab, lab)
		}
		return fmt.Sprintf("no peer is running at %s; start one with `peer up`, or name another with --socket or --lab", e.Socket)
	}
	return fmt.Sprintf("connect to the peer at %s: %v", e.Socket, e.Err)
}

// Unwrap returns the cause.
func (e *NoPeerError) Unwrap() error { return e.Err }

// AsError turns an answer's error into what a person reads: an *api.Error for what the
// peer said, a *NoPeerError where there is none. Other errors are returned as they are.
func AsError(err error) error {
	if known := (*api.Error)(nil); errors.As(err, &known) {
		return err
	}
	if none := (*NoPeerError)(nil); errors.As(err, &none) {
		return none
	}
	said := (*connect.Error)(nil)
	if !errors.As(err, &said) {
		return err
	}
	if code := said.Meta().Get(apiv1.CodeHeader); code != "" {
		message, problems := splitProblems(said.Message())
		return &api.Error{Code: code, Message: message, Problems: problems, Cause: err}
	}
	switch {
	case said.Code() == connect.CodeUnimplemented:
		return fmt.Errorf("the peer does not know this command; it runs another version of the program: %w", err)
	case connect.IsWireError(said):
		return &api.Error{Code: api.Internal, Message: said.Message(), Cause: err}
	case said.Code() == connect.CodeUnavailable:
		return fmt.Errorf("the peer ended before it answered; ask again: %w", err)
	}
	return err // of our own context, most likely
}

// Is reports whether a peer answered with the given code.
func Is(err error, code string) bool {
	return errors.Is(AsError(err), &api.Error{Code: code})
}

// splitProblems takes the list of problems off a message, which has one problem of a
// field in each line behind the first.
func splitProblems(text string) (message string, problems []api.Problem) {
	message, rest, _ := strings.Cut(text, "\n")
	for line := range strings.Lines(rest) {
		line = strings.TrimSuffix(line, "\n")
		path, what, ok := strings.Cut(line, ": ")
		if !ok || !isField(path) {
			path, what = "", line
		}
		problems = append(problems, api.Problem{Path: path, Message: what})
	}
	return message, problems
}

// isField tells a field's path from the first words of a sentence.
func isField(path string) bool {
	top, _, _ := strings.Cut(path, ".")
	return slices.Contains([]string{"kind", "namespace", "name", "spec", "lifecycle", "status"}, top)
}
