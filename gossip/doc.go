// Package gossip connects a peer with the others over real sockets.
//
// Two tasks share the work, on two ports, and neither needs the other to be right:
//
//   - [Membership] (serf, UDP and TCP port 7946) knows which machines are there, how
//     they are reached and when they fell silent. It carries no data.
//   - [Transport] (TCP port 7947) keeps mutual-TLS connections to other members and
//     carries frames, opaque to this package, between them; serves the API to
//     members; and is the door at which newcomers knock ([Join]).
//
// A machine is its key. Its address may change at any time, even while it is alive, so
// memberlist, which takes an address for identity, is given a stand-in that never
// changes, and the real address travels as a tag.
//
// What is sent may be lost: a queue that is full drops, a connection that breaks loses
// what was on its way. Replication repairs that by anti-entropy, so nothing here
// retries. What arrives is in order within one connection and came from a machine that
// the authorisation log admits.
package gossip
