// Package soak puts real peers under stress, round after round, and counts what they lose:
// nothing, or the tests fail. They share one lab of three machines, whose peers keep their
// logs in a real store and talk over real sockets.
//
//   - TestKilledWriters ends a peer with SIGKILL while people write to it: what it had
//     acknowledged is there when it runs again.
//   - TestCutAndHealed cuts the machines apart at random while people write to all of them:
//     healed, all have the same state, and everything that was acknowledged is in it.
//
// Who must not get in at all (tokens that are forged, used, expired or of another cluster,
// machines that were removed) is told in package e2e, join_test.go.
//
// A run of all tests takes a few rounds of each. `make soak` takes ROUNDS of them, and as
// many of the store's own (kills, cuts and flipped bits of a store that no peer has open).
// The tests need root.
package soak
