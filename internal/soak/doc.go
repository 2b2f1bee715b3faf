// Package soak puts real peers under stress, round after round, and counts what they lose:
// nothing, or the tests fail. Most share one lab of three machines, whose peers keep their
// logs in a real store and talk over real sockets.
//
//   - TestKilledWriters ends a peer with SIGKILL while people write to it: what it had
//     acknowledged is there when it runs again.
//
//   - TestCutAndHealed cuts the machines apart at random while people write to all of them:
//     healed, all have the same state, and everything that was acknowledged is in it.
//
//   - TestEntriesThatAreRefused sends peers entries that are forged, replayed, of another cluster
//     or of a machine that was removed: state and log stay as they are.
//
//   - TestJoinsThatAreRefused knocks with tokens that are forged, used, expired or of another
//     cluster, with another connection's request, and with the key of a removed machine.
//
// The last two need no lab: their peers are loops with stores and streams of their own, on
// loopback. What a person sees of refused joins is told in package e2e, join_test.go.
//
// A run of all tests takes a few rounds of each. `make soak` takes ROUNDS of them, and as
// many of the store's own (kills, cuts and flipped bits of a store that no peer has open).
// Those that use the lab need root.
package soak
