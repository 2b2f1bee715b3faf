// Package crdt is the algebra of Starling's replicated state: clock, change,
// batch, actor log, heads, fold and history. It is pure: no I/O, no clock of its
// own, no goroutines, no maps whose order could reach a result.
//
// A [Change] is what an author signs. An [actor] (one life of one peer's store)
// appends changes to its log in [Batch]es: contiguous sequence numbers, each
// entry chained to the one before by hash, one signature per batch. The bytes of a
// batch are stored, relayed and checked exactly as they were signed.
//
// A [State] folds changes into objects. The fold depends on the set of changes
// only, never on their order, grouping or repetition.
package crdt
