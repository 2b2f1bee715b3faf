package identity

import (
	"errors"

	"starling.dev/starling/api"
)

// Errors that a person can run into are *api.Error, or a *Refusal that came from
// another machine, with one of these codes of package api:
//
//	TokenInvalid    mistyped, or its grant is unknown or void
//	TokenExpired    by the sponsor's clock
//	TokenUsed       another machine joined with it
//	WrongCluster    the machine that answered is not of the token's cluster
//	ClockSkew       newcomer and sponsor differ by over MaxClockSkew
//	NameTaken       another machine holds the name
//	NotSponsor      only the grant's sponsor redeems; the Refusal names it
//	MachineRemoved  the newcomer's key was removed
//	Unauthorized    the machine or the root key may not do this
//	NotFound        there is no such machine
//	Invalid         a name, an address or a message is malformed
//
// The log and its readers use these sentinels; wrapped errors say which record and why.
var (
	// ErrMalformed: the bytes are not a canonical record. They are dropped.
	ErrMalformed = errors.New("malformed authorisation record")
	// ErrForged: a signature in the record does not verify: the issuer's for this
	// cluster, or a newcomer's for the grant. The record is dropped.
	ErrForged = errors.New("forged authorisation record")
	// ErrStranger: the issuer was never admitted in the record's own past. The record
	// is dropped, by every replica alike.
	ErrStranger = errors.New("authorisation record of a stranger")
	// ErrRefused: the change has no effect. It stays visible. (A change that must wait
	// for records gets crdt.ErrNotYet instead.)
	ErrRefused = errors.New("change refused")
	// ErrStrangerKey: the other side of a connection showed a key that the
	// authorisation log does not admit.
	ErrStrangerKey = errors.New("the peer's key is not a member's")
)

// CodeOf returns the api code in err's chain, "" if there is none.
func CodeOf(err error) string {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e.Code
	}
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Code
	}
	return ""
}
