package oci

import (
	"fmt"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// failure makes the error of a step, with one of package api's codes and the cause
// kept for errors.Is.
func failure(code string, cause error, format string, args ...any) error {
	e := &lifecycle.Error{Code: code, Message: fmt.Sprintf(format, args...)}
	if cause == nil {
		return e
	}
	return &caused{e, cause}
}

// caused joins the error of a step with what caused it. Its sentence is the
// step's alone: the cause's words are already in it where they help.
type caused struct {
	step  *lifecycle.Error
	cause error
}

func (c *caused) Error() string   { return c.step.Error() }
func (c *caused) Unwrap() []error { return []error{c.step, c.cause} }

// unreachable says that containerd does not answer.
type unreachable struct {
	socket string
	cause  error
}

func (u *unreachable) Error() string {
	return fmt.Sprintf("containerd does not answer at %s: %v; see `systemctl status containerd`", u.socket, u.cause)
}

func (u *unreachable) Unwrap() []error {
	return []error{&lifecycle.Error{Code: api.RuntimeUnavailable, Message: u.Error()}, u.cause}
}
