package crdt

import "encoding/hex"

// ID is the SHA-256 of the canonical bytes that it names (a change, an entry).
type ID [32]byte

// String prints the first six bytes in hex, enough to tell changes apart by eye.
func (id ID) String() string { return hex.EncodeToString(id[:6]) }

// IsZero reports whether the ID names nothing.
func (id ID) IsZero() bool { return id == ID{} }

// MachineID is the first 16 bytes of the SHA-256 of a machine's Ed25519 public key.
type MachineID [16]byte

// String prints the whole ID in hex.
func (id MachineID) String() string { return hex.EncodeToString(id[:]) }

// IsZero reports whether the ID names nothing.
func (id MachineID) IsZero() bool { return id == MachineID{} }

// ActorID is the first 16 bytes of the SHA-256 over the machine's public key and
// the nonce of one life of its store. See [Birth].
type ActorID [16]byte

// String prints the first six bytes in hex.
func (id ActorID) String() string { return hex.EncodeToString(id[:6]) }

// IsZero reports whether the ID names nothing.
func (id ActorID) IsZero() bool { return id == ActorID{} }

// Head is the last entry known of an actor. Sequence numbers start at 1.
type Head struct {
	Seq  uint64
	Hash ID
}

// Heads is a version vector with hashes: the last entry known of each actor.
type Heads map[ActorID]Head

// Ref names an object. It has the shape of api.Key, so that one converts to the
// other, while this package imports nothing.
type Ref struct {
	Kind, Namespace, Name string
}

// OpKind says what an operation does. Unknown kinds are kept and relayed, never
// folded: a peer that meets one is below the change's level.
type OpKind uint8

// The operations of level 1.
const (
	// OpSet writes Path (a full dotted path below "spec." or "lifecycle.") to
	// Value, a canonical JSON text.
	OpSet OpKind = 1
	// OpUnset removes Path.
	OpUnset OpKind = 2
	// OpCreate starts an incarnation; the change's ID becomes the object's identity.
	OpCreate OpKind = 3
	// OpDelete ends the incarnation: the object is to be taken down.
	OpDelete OpKind = 4
	// OpResult writes the register of the step named by Path; Register holds it.
	OpResult OpKind = 5
)

// Op is one operation of a change.
type Op struct {
	Kind     OpKind
	Path     string    // field path, or step name for OpResult
	Value    string    // canonical JSON for OpSet
	Register *Register // OpResult only
}

// Place is where a change stands: which machine's log, and which entry of it.
type Place struct {
	Machine MachineID
	Actor   ActorID
	Head    // the entry
}

// Change is what an author says about one object. Its ID is the hash of its actor and
// of its canonical encoding. A change is immutable once encoded.
type Change struct {
	// At is known from the log that the change stands in, and no part of its encoding.
	// The machine vouches for the author: the batch's signature is its only one.
	At          Place
	Object      Ref
	Incarnation ID     // the creating change; zero in the creating change itself
	Parents     []ID   // the spec heads that the author saw, sorted; empty for results
	Auth        []ID   // heads of the authorisation log that the author saw, sorted
	Author      string // "user:alice" or "loop:scheduler"
	HLC         uint64 // hybrid logical clock: Unix milliseconds << 16 | counter
	Nonce       uint64
	Level       uint32
	Set         [16]byte // the change set (one apply); zero when the change stands alone
	Message     string   // the author's note
	Ops         []Op
	// extension holds what a later level put after the operations: kept and relayed.
	extension string
}

// Register is one step's result, written whole when anything in it changes. The
// highest Attempt wins, then the highest hash(object, executor), then the highest
// (stamp, change ID): the start and the end of one attempt have one executor, and
// the end is stamped later.
type Register struct {
	Attempt  uint64 // 1 + the greatest in its causal past
	Phase    Phase
	Reads    ID // hash of the declared reads that the attempt ran with
	Executor MachineID
	// Unix milliseconds; zero when it has not come to that. Queued: became
	// dirty. Ready: everything it requires was there. Started, Finished: the action.
	Queued, Ready, Started, Finished int64
	// Outputs maps full paths below "status." to canonical JSON values. A failed
	// attempt keeps the outputs that are still true.
	Outputs map[string]string
	// Code and Message say why an attempt failed, for programs and for people.
	Code, Message string
	// Failures counts failed attempts in a row; RetryAt (Unix milliseconds) is when
	// the next may start, zero for "when something it consults changes".
	Failures uint32
	RetryAt  int64
}

// Phase is how far an attempt has come.
type Phase uint8

// The phases of an attempt.
const (
	PhaseStarted Phase = 1 // acting; only written when the step lasts
	PhaseDone    Phase = 2
	PhaseFailed  Phase = 3
	PhaseUndone  Phase = 4 // taken back on the way down
)

// Birth opens an actor's log: it is carried by the batch that holds entry 1.
// The actor's ID is sha256(PublicKey, Nonce)[:16].
type Birth struct {
	PublicKey []byte // the machine's Ed25519 key, 32 bytes
	Nonce     uint64
	// Before is the head of the actor that the same store wrote as before it was
	// started this time; zero for a new store.
	Before     ActorID
	BeforeHead Head
}

// Batch is the unit of the log that is signed, stored and sent: the entries
// First..First+len(Changes)-1 of one actor. Entry hashes chain:
// hash(n) = sha256(actor, n, hash(n-1), change ID). Sig is the machine's Ed25519
// signature over the hash of the last entry (and, with it, over all before).
type Batch struct {
	Actor   ActorID
	First   uint64
	Prev    ID       // hash of entry First-1; zero at the start
	Birth   *Birth   // present exactly when First is 1
	Changes [][]byte // encoded changes, or the stubs of compacted ones
	Sig     []byte
}
