package crdt

// Commit is everything that one turn of a peer must make durable, atomically, with
// one sync, before any of the turn's effects leave. It is the seam between the
// deterministic core and a disk (real: package store; simulated: package sim).
type Commit struct {
	// Batches are appended to their actors' logs, in order; own and foreign alike.
	// A batch that is already there (same actor, same first) is skipped.
	Batches []Batch
	// Compacted take the place of the stored batches that begin within them, if those
	// are there and end with the same entry and the same hash: content is gone, and
	// nothing else. One that does not fit is skipped.
	Compacted []Batch
	// Local are writes to the peer's private key space, never replicated: intents of
	// running steps, authorisation records, the last clock reading, the peer table.
	Local []LocalWrite
	// HighWater, when Actor is not zero, is the head of the peer's own actor after
	// this commit. It is also written, checksummed and synced, to a file beside the
	// database, since a database that lost its tail may open silently.
	HighWater HighWater
}

// Empty reports whether there is nothing to write.
func (c Commit) Empty() bool {
	return len(c.Batches) == 0 && len(c.Compacted) == 0 && len(c.Local) == 0
}

// LocalWrite puts a value under a key of the private key space; a nil value deletes.
type LocalWrite struct {
	Key   string
	Value []byte
}

// HighWater names the own actor and its head.
type HighWater struct {
	Actor ActorID
	Head  Head
}

// Range names the entries From..To (inclusive) of an actor's log.
type Range struct {
	Actor    ActorID
	From, To uint64
}
