// Package identity says who belongs to a cluster and who may do what: keys, the
// genesis record, the authorisation log, tokens, the join exchange, and the TLS
// configuration that checks a peer's key against the log.
//
// A cluster begins with a [Genesis] record; its hash is the [ClusterID]. A machine
// is its Ed25519 key. The authorisation log ([Log]) is a small graph of signed
// records (admissions, token grants, removals, voters), each naming the records
// that its issuer had seen. It replicates beside the objects and is never mixed
// with them.
//
// The law of the log: a record's verdict follows from the set of records alone. It
// counts if its issuer was entitled in the record's own causal past, and if it lies
// inside every valid cut against its issuer. Nothing is judged by the order in
// which records arrived, and nothing by a wall clock, because replicas would then
// differ. See judge.go for the rules and docs/adr/0031 for why they are these.
//
// Read in this order: record.go and bodies.go (what is written), log.go (how it is
// kept), judge.go (what counts), snapshot.go and permits.go (what readers see),
// token.go, redeem.go and exchange.go (how a machine joins), tls.go.
//
// The package is pure but for the key files in keys.go: no sockets, no clock, no
// random source of its own, no goroutines. Only [Log] mutates, and only one
// goroutine may use it; a [Snapshot] may be read by all.
package identity
