package oci

import (
	"fmt"

	"starling.dev/starling/lifecycle"
)

// Codes of the *lifecycle.Error values that this package returns.
const (
	// CodeImageNotFound: neither this machine, nor a peer, nor the registry has it.
	CodeImageNotFound = "ImageNotFound"
	// CodeRegistryUnreachable: the registry does not answer, or answers with a
	// failure of its own.
	CodeRegistryUnreachable = "RegistryUnreachable"
	// CodeUnauthorized: the registry refuses without (other) credentials.
	CodeUnauthorized = "Unauthorized"
	// CodeImagePlatform: the image is not for this machine's architecture.
	CodeImagePlatform = "ImagePlatform"
	// CodeImageInvalid: the reference or the image's content is malformed.
	CodeImageInvalid = "ImageInvalid"
	// CodeContainerStart: the container could not be made or started as specified.
	CodeContainerStart = "ContainerStart"
	// CodeRuntimeMissing: the machine lacks the OCI runtime that the spec names.
	CodeRuntimeMissing = "RuntimeMissing"
	// CodeRuntimeUnreachable: containerd does not answer.
	CodeRuntimeUnreachable = "RuntimeUnreachable"
)

// failure makes the error of a step, with the cause kept for errors.Is.
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
	return []error{&lifecycle.Error{Code: CodeRuntimeUnreachable, Message: u.Error()}, u.cause}
}
