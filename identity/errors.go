package identity

import (
	"errors"
	"fmt"
)

// The codes of what a person can run into while joining. They travel in a
// [Refusal] and appear in the API's errors unchanged.
const (
	// CodeTokenInvalid: the token is mistyped, or its grant is unknown or void.
	CodeTokenInvalid = "TokenInvalid"
	// CodeTokenExpired: by the sponsor's clock the token's time is over.
	CodeTokenExpired = "TokenExpired"
	// CodeTokenUsed: another machine joined with this token.
	CodeTokenUsed = "TokenUsed"
	// CodeWrongCluster: the machine that answered is not of the token's cluster.
	CodeWrongCluster = "WrongCluster"
	// CodeClockSkew: the clocks of newcomer and sponsor differ by over [MaxClockSkew].
	CodeClockSkew = "ClockSkew"
	// CodeNameTaken: another machine holds the name.
	CodeNameTaken = "NameTaken"
	// CodeNotSponsor: only the grant's sponsor may redeem the token; the error names it.
	CodeNotSponsor = "NotSponsor"
	// CodeMachineRemoved: the newcomer's key was removed from this cluster.
	CodeMachineRemoved = "MachineRemoved"
	// CodeNotPermitted: the machine or the root key may not do this.
	CodeNotPermitted = "NotPermitted"
	// CodeInvalid: a message or a name is malformed.
	CodeInvalid = "Invalid"
)

// Error is an error with a code for programs and one sentence for people.
type Error struct {
	Code    string
	Message string
}

// Error returns the sentence.
func (e *Error) Error() string { return e.Message }

// CodeOf returns the code of the first *Error or *Refusal in err's chain, or "".
func CodeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Code
	}
	return ""
}

func errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Sentinels of the log. Wrapped errors say which record and why.
var (
	// ErrMalformed: the bytes are not a canonical record. They are dropped.
	ErrMalformed = errors.New("malformed authorisation record")
	// ErrForged: the signature does not verify for this cluster. The record is dropped.
	ErrForged = errors.New("authorisation record with a wrong signature, or of another cluster")
	// ErrStranger: the issuer was never admitted in the record's own past. The record
	// is dropped, by every replica alike.
	ErrStranger = errors.New("authorisation record of a stranger")
	// ErrAuthMissing: a change names authorisation heads that are not here yet. The
	// change waits unfolded.
	ErrAuthMissing = errors.New("authorisation records not here yet")
	// ErrRefused: the change has no effect. It stays visible.
	ErrRefused = errors.New("change refused")
)
