// Package quorum lets a few machines agree on the value of a register that is changed
// by functions of its present value: CASPaxos (Rystsov, "CASPaxos: Replicated State
// Machines without logs", 2018), without I/O.
//
// An [Acceptor] is what one voter keeps of one register. Everything in it must be
// durable before an answer leaves. A [Round] is one attempt of one proposer to change
// a register: it asks a majority of the voters for a promise, applies its function to
// the value of the highest ballot among the answers, and has a majority accept what
// came of it. Whoever drives a round carries its requests to the voters and the
// answers back; both may be lost, repeated and reordered.
//
// The voters themselves change, from one epoch to the next. A [Ballot] begins with its
// epoch, so that whatever was accepted before a change of voters counts less than
// anything accepted after it. A voter takes part in an epoch only once it has merged
// ([Merge]) what a majority of the voters before held when they had left the epoch
// before: whatever was chosen then is among it, so every voter of the new epoch knows it.
//
// Safety, for one register and epoch: at most one value is accepted at one ballot, since
// a ballot has one proposer and a proposer uses it once; and once a majority accepted a
// value, every later ballot's value is made from it or from a successor.
package quorum
