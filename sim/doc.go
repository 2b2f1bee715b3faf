// Package sim runs many peers in virtual time under faults, from one seed.
//
// A [World] holds machines. Each has the production [peer.Core], driven as package
// peer's Loop drives it (gather events, one commit, then all effects), on a simulated
// disk, host, clock and network. Everything that happens is an event in one queue, and
// every choice comes from the seed, so that a failure is repeated exactly by the one
// command that its report prints.
//
// A seed first draws its weather: which faults there are, and how often. Features left
// out at random reach states that a little of everything never does (Groce et al.,
// "Swarm Testing", 2012). People and faults then act for a while; then the faults cease,
// everything is mended, and what was promised must come true within a bounded time.
//
// Read world.go, then machine.go (one peer and its driver), network.go, gossip.go,
// disk.go and host.go (what the driver stands on), weather.go, people.go and faults.go
// (what happens), and the check files (what must hold; the numbers are those of the
// design's invariants).
package sim
