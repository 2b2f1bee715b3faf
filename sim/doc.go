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
// In some seeds the storm ends for a majority only: a minority stays broken, and what is
// left has to come to rest without it (majority.go).
//
// Begin with testdata/three.txt, a short story that a test plays. Then read world.go,
// machine.go (one peer and its driver), network.go, gossip.go, disk.go and host.go (what the
// driver stands on), weather.go (which faults there are, and their ranges), people.go,
// faults.go, hostile.go, rot.go, pause.go, levels.go and rollout.go (what happens), and the check files.
//
// Where the design's invariants are checked:
//
//	 1  equal heads, equal bytes        checker.equal, after each durable turn and at the end
//	 2  no acknowledged change is lost  checker.acknowledged, sent and started; kept at the end
//	 3  no entry has two contents       checker.batch, of each entry that is made durable
//	 4  the fold knows no order         checker.refold, now and then and at the end
//	 5  only owners change fields       checker.fields, of each object that a turn touched
//	 6  no machine gives more than all  checker.hosted, at each start; hostNetwork.Detach
//	 7  one running instance            leased: checker.alone, at each start; others: acting,
//	                                    before each action, and misplaced at the end; voters
//	 8  no address twice                checker.addresses, at the end
//	 9  a rollback is exact             checker.rolledBack, at each rollback
//	10  at rest, or with a reason       checker.settle, also with a minority that stays broken
//	11  limits are kept                 checker.queue and waking always; figures and churn at rest
//	12  a rollout keeps its bounds      checker.rollout, at each decision about a deployment
//	13  the same seed, the same trace   RunTwice, for each seed of TestShortSeeds
//
// To trust the checkers, planted_test.go plants bugs (go test -tags planted ./sim). Some faults
// are not of a kind that a core sees, and are tried on the real thing: a disk that is copied to
// another machine (package store), torn and flipped bits of its files (package store), and a
// peer that is killed or cut off while people write (package internal/soak).
package sim
