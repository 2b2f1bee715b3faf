// Package crdt is the algebra of Starling's replicated state: clock, change,
// batch, actor log, heads, fold and history. It is pure: no I/O, no clock of its
// own, no goroutines, no maps whose order could reach a result.
//
// A [Change] is what an author signs. An [actor] (one life of one peer's store)
// appends changes to its log in [Batch]es: contiguous sequence numbers, each
// entry chained to the one before by hash, one signature per batch. The bytes of a
// batch are stored, relayed and checked exactly as they were signed. A [Log] judges
// batches and tracks the heads; it never looks into a change.
//
// A [State] folds changes into [Object]s. The fold depends on the set of changes
// only, never on their order, grouping or repetition. Its laws:
//
//   - A change is later than all that it builds on: its stamp is the greater of its
//     HLC and 1 + the greatest stamp of its parents. It waits until those are there.
//   - Each field of spec and lifecycle holds its last write by (stamp, ID). A removal
//     is a write.
//   - Each step's register is the maximum of its results ([Register]). Whether the
//     winner was permitted is asked afterwards: a refused winner means absent.
//   - A change by another than a field's owner has no effect, and is shown.
//   - An incarnation is named by its creating change. Of several that live, the one
//     with the lowest (stamp, ID) has the name; the others are shown.
//   - A deletion ends an incarnation. People's edits of the spec that no deletion knew
//     of go on in a new incarnation, which has the spec as those edits saw it, and
//     no results. Its identity derives from the deleted one, so that all such edits
//     meet in one object.
//   - A rev's number is 1 + the greatest among its parents, refused ones included.
//   - An entry that its machine stated to be compacted counts at no replica, and only
//     its ID need be kept ([Compacted]).
//
// Reading order: types.go, codec.go, log.go, state.go (what happens to a change),
// judge.go (who may), fold.go (the DAG and deletion), register.go, slot.go (names),
// then object.go and revs.go for readers.
package crdt
