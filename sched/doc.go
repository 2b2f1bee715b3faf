// Package sched chooses a machine for a pod: filters, scores, and a reason with
// numbers for every machine that is refused. Pods that one object made go apart where
// they can. It is pure; peers with the same view decide alike, since ties are broken by
// rendezvous hashing.
package sched
