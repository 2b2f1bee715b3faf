package store

import "errors"

// Errors that callers tell apart with [errors.Is]. The errors returned wrap them in
// a sentence that says what is wrong, where, and what to do.
var (
	// ErrInUse: another process has the directory open.
	ErrInUse = errors.New("data directory is in use")
	// ErrFormat: the directory was written by a newer version of the program, or is
	// not a data directory at all. Nothing in it was changed.
	ErrFormat = errors.New("data directory has an unknown format")
	// ErrCopied: the directory belongs to another machine. Nothing was changed.
	ErrCopied = errors.New("data directory belongs to another machine")
	// ErrDiskFull: the disk has no room. Unless the error is also ErrBroken, nothing
	// was written, and the same commit may be offered again later.
	ErrDiskFull = errors.New("disk is full")
	// ErrBroken: a commit failed on the way; only reopening tells what is on disk.
	ErrBroken = errors.New("store is broken until it is reopened")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store is closed")
	// ErrDamaged: stored bytes do not match their checksum.
	ErrDamaged = errors.New("stored bytes are damaged")
	// ErrInvalid: the commit itself is malformed. Nothing was written.
	ErrInvalid = errors.New("commit is invalid")
)
