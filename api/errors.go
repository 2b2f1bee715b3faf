package api

import (
	"errors"
	"fmt"
	"strings"
)

// The codes of errors, shared by loops, peers and commands. They are part of the
// interface: programs compare them. [Codes] documents each.
const (
	AlreadyExists       = "AlreadyExists"
	AmbiguousRev        = "AmbiguousRev"
	ClockSkew           = "ClockSkew"
	Conflict            = "Conflict"
	ContainerExited     = "ContainerExited"
	DataDirCopied       = "DataDirCopied"
	DataDirInUse        = "DataDirInUse"
	DataDirNewer        = "DataDirNewer"
	DiskFull            = "DiskFull"
	EntriesSpent        = "EntriesSpent"
	FeedbackSpent       = "FeedbackSpent"
	ImageNotFound       = "ImageNotFound"
	ImagePlatform       = "ImagePlatform"
	Internal            = "Internal"
	Invalid             = "Invalid"
	LabelMissing        = "LabelMissing"
	LinkMissing         = "LinkMissing"
	LivenessFailed      = "LivenessFailed"
	LoopDetached        = "LoopDetached"
	LoopRefused         = "LoopRefused"
	MachineDrained      = "MachineDrained"
	MachineRemoved      = "MachineRemoved"
	MachineSilent       = "MachineSilent"
	MachineUnreachable  = "MachineUnreachable"
	NameTaken           = "NameTaken"
	NoMachineFits       = "NoMachineFits"
	NoMajority          = "NoMajority"
	NoRoot              = "NoRoot"
	NotFound            = "NotFound"
	NotSponsor          = "NotSponsor"
	ObjectMissing       = "ObjectMissing"
	ObjectNotUp         = "ObjectNotUp"
	OutOfMemory         = "OutOfMemory"
	ReadinessFailed     = "ReadinessFailed"
	Refused             = "Refused"
	PoolExhausted       = "PoolExhausted"
	PortInUse           = "PortInUse"
	RegistryUnreachable = "RegistryUnreachable"
	RequirementCycle    = "RequirementCycle"
	RuntimeUnavailable  = "RuntimeUnavailable"
	ServiceMissing      = "ServiceMissing"
	SpecInvalid         = "SpecInvalid"
	StartupFailed       = "StartupFailed"
	StepFailed          = "StepFailed"
	SwitchRefused       = "SwitchRefused"
	TimedOut            = "TimedOut"
	TokenExpired        = "TokenExpired"
	TokenInvalid        = "TokenInvalid"
	TokenUsed           = "TokenUsed"
	TooLarge            = "TooLarge"
	Unauthorized        = "Unauthorized"
	UndoFailed          = "UndoFailed"
	WrongCluster        = "WrongCluster"
	WrongOwner          = "WrongOwner"
)

// Code documents one error code.
type Code struct {
	Name string
	Doc  string // what is wrong
	Do   string // what to do about it
}

// Codes returns the documentation of every code, sorted by name. The caller must not
// change it.
func Codes() []Code { return codes }

// CodeByName finds the documentation of a code.
func CodeByName(name string) (Code, bool) {
	for _, c := range codes {
		if c.Name == name {
			return c, true
		}
	}
	return Code{}, false
}

// codes is sorted by name and never changed.
var codes = []Code{
	{AlreadyExists, "An object of this name exists.", "Choose another name, or change the object with `peer apply`."},
	{AmbiguousRev, "Two people made a rev of this number at the same time.", "Name one of the revs that the message lists."},
	{ClockSkew, "The machine's clock differs too much from the cluster's.", "Set the clock, or run a time service such as systemd-timesyncd."},
	{Conflict, "Two people changed the same field at the same time.", "Look at both values with `peer status`, and settle it with another edit."},
	{ContainerExited, "A container ended by itself.", "Read its last lines with `peer logs --previous`."},
	{DataDirCopied, "The data directory was copied from another machine, and both would speak with one key.", "Start with an empty data directory and join again."},
	{DataDirInUse, "Another peer is running on the data directory.", "Stop that peer, or give this one another data directory."},
	{DataDirNewer, "A newer version of the program wrote the data directory.", "Run that version or a later one."},
	{DiskFull, "The disk that holds the data directory is full.", "Free some space; writing goes on by itself."},
	{EntriesSpent, "A loop wrote so much about an object that it is held back.", "See with `peer analyze --churn` and `peer events` what makes it change its mind, and settle that with an edit."},
	{FeedbackSpent, "What stands further down changed a step again and again since the last edit, so that it now waits longer each time.", "Read with `peer events` what the two answer each other, and settle it with an edit."},
	{ImageNotFound, "The image is neither on the machine nor in its registry.", "Check the reference, or load the image with `peer image load`."},
	{ImagePlatform, "The image is not made for the machine's architecture.", "Build it for that architecture, or require a label that only fitting machines have."},
	{Internal, "The program met a state that it should never be in.", "Report it with the message and the peer's log."},
	{Invalid, "A name, an address or a message is malformed.", "Correct what the message points at; nothing was changed."},
	{LabelMissing, "No machine has a label that the pod requires.", "Add the label to a machine, or change spec.require."},
	{LinkMissing, "A link of the machine that an interface of the pod attaches to is not there, is down, or has too small an MTU.", "Mend that link on the machine, or place the pod elsewhere with spec.require; the pod goes on by itself."},
	{LivenessFailed, "A container's liveness probe failed, so that it is restarted.", "Read the container's output with `peer logs --previous`, and ask the probe's port yourself with `peer forward`."},
	{LoopDetached, "A foreign loop's program is not attached to the machine's peer.", "Start the program there; the step goes on by itself."},
	{LoopRefused, "A Step does not fit into the lifecycle that it hooks into.", "Change what the message points at: another owner's field, a requirement that does not exist, or a cycle."},
	{MachineDrained, "The machine is drained and takes no pods.", "Bring it back with `peer machine resume`."},
	{MachineRemoved, "The machine's key was removed from the cluster.", "Run `peer leave --purge` on the machine to get a new key, then join again."},
	{MachineSilent, "A majority of the voters hear nothing from the machine.", "Look after the machine; its pods run elsewhere after their grace unless they are pinned."},
	{MachineUnreachable, "The peer that was asked can't reach the machine.", "Check the network between the two, or ask another peer."},
	{NameTaken, "Another machine of the cluster has this name.", "Choose another name, or take its place with `peer join --replace`."},
	{NoMachineFits, "No machine has what the pod asks for.", "Ask for less, free some capacity, or add a machine."},
	{NoMajority, "Fewer than half of the voters can be reached, so that nobody can tell which side of a cut is gone.", "Mend the network, or start more of the voters."},
	{NoRoot, "The peer runs containers and must be root.", "Run it with sudo, or install it with `peer install`."},
	{NotFound, "There is no such object.", "List what there is with `peer get`."},
	{NotSponsor, "Only the machine that a token names as its sponsor can redeem it.", "Join at that machine, or make a new token with `peer invite` where you are."},
	{ObjectMissing, "An object requires another one that does not exist.", "Create it, or take it out of spec.objects."},
	{ObjectNotUp, "An object requires another one that is not up.", "Mend the other one first; the step goes on by itself."},
	{OutOfMemory, "A container used more memory than its limit and was killed.", "Raise resources.memory, or make the program use less."},
	{PoolExhausted, "A pool has no address left for a service.", "Add a prefix to the pool, or delete a service that has one of its addresses."},
	{PortInUse, "A program on the machine listens on a host port of the pod.", "Stop that program, or choose another port in spec.containers.*.hostPorts; the pod goes on by itself."},
	{ReadinessFailed, "A container runs, and its readiness probe fails.", "Read the container's output with `peer logs`, and ask the probe's port yourself with `peer forward`."},
	{Refused, "The machine has not enough left for the pod that was placed on it.", "Nothing: the pod is placed again. If no machine fits, free some capacity."},
	{RegistryUnreachable, "The registry of the image does not answer.", "Check the registry and the machine's network, or load the image with `peer image load`."},
	{RequirementCycle, "Objects require each other in a circle, so that none of them starts.", "Take one of the requirements out of spec.objects."},
	{RuntimeUnavailable, "The container runtime does not answer.", "Start containerd, or install it so that the peer can."},
	{ServiceMissing, "A route of a site leads to a service, or to a port of one, that does not exist. The other routes are served.", "Create the service, or correct the route in spec.routes; the site goes on by itself."},
	{SpecInvalid, "The spec has fields that are unknown, missing or wrong.", "Correct what the message points at; nothing was changed."},
	{StartupFailed, "A container's startup probe did not pass in its time, so that it is restarted.", "Read the container's output with `peer logs --previous`; raise the probe's failures or period if it only needs longer."},
	{StepFailed, "A step failed for a reason that has no code of its own.", "Read the message; the step is tried again with a growing delay."},
	{SwitchRefused, "Another switch of the object is under way.", "Wait for it, give it up with `peer switch OBJ --cancel`, or take its place with --mode replace."},
	{TimedOut, "A step or a command did not finish in its time.", "Look after what it works on, which the message names; a step of a loop of your own can be given a longer timeout, or be passed over with `peer switch --skip`."},
	{TokenExpired, "The token's time is over.", "Make a new one with `peer invite`."},
	{TokenInvalid, "The token is not one that this cluster made.", "Copy the whole join line that `peer invite` printed, or make a new one."},
	{TokenUsed, "The token was used before, and each works once.", "Make a new one with `peer invite`."},
	{TooLarge, "A spec, a note, or what a step returned is larger than the limit.", "Move large values into the image or a volume, and keep where they are."},
	{Unauthorized, "The credentials are missing or do not suffice.", "Use other credentials, or ask who administers the registry or the cluster."},
	{UndoFailed, "A step could not be taken back; that is tried again with a growing delay.", "Mend what the message names, or pass the step over with `peer switch --skip`."},
	{WrongCluster, "The token or the peer belongs to another cluster.", "Use a token of the cluster that the address belongs to."},
	{WrongOwner, "The field belongs to another writer.", "Ask `peer explain` who owns the field, and change what that owner reads."},
}

// Error is an error that a person or a program can act on.
type Error struct {
	// Code is one of the constants above.
	Code string
	// Message is one sentence: what is wrong, where, and what to do.
	Message string
	// Problems are the single faults of a spec.
	Problems []Problem
	// Cause is what led to the error; may be nil.
	Cause error
}

// Errorf makes an error of a message. A %w among the verbs becomes its cause.
func Errorf(code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Cause: errors.Unwrap(err)}
}

// Error returns the message and, below it, each problem.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Message)
	for _, p := range e.Problems {
		b.WriteByte('\n')
		b.WriteString(p.String())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is makes errors.Is(err, &Error{Code: NotFound}) find an error by its code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Message == ""
}

// CodeOf returns the code of an error, Internal for one that has none, and "" for
// nil.
func CodeOf(err error) string {
	if err == nil {
		return ""
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Code
	}
	return Internal
}
