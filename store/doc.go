// Package store keeps a peer's log and its private keys on disk, in Badger.
//
// A directory that [Open] owns looks like this:
//
//	LOCK       the process that has it open; the lock itself is on the directory
//	FORMAT     version of the layout, and the machine that the directory belongs to
//	highwater  number of the last commit and the own head, outside the database
//	reserve    disk space set aside, so that a full disk can still be mended
//	db/        the database
//	checkpoint the folded state as of some entries, so that a start folds only what
//	           came later; in any doubt it is not used
//
// # What a commit promises
//
// [Store.Commit] is atomic and durable: when it returns nil, everything in it
// survives a crash and a loss of power; when it does not return, or the machine
// stops on the way, [Store.Recover] finds all of it or nothing. The order is
//
//  1. the high-water file that the commit before it has written, synced;
//  2. the database's transaction, synced;
//  3. the high-water file, written;
//  4. the return, after which the turn's effects may leave, and beside which the file is
//     synced.
//
// Invariant: the number in the high-water file is never above the number of a commit
// that the database made durable, and on the disk never more than one below it. So a
// database that is behind the file has lost its tail (Badger opens silently after
// cutting off a torn or rotten record), and a database that is ahead by one only crashed
// before the file was synced. What could tear a commit's record, which is the next
// one's, is written only once the file says durably that it was there.
//
// A commit that is too large for one transaction is written in parts. Each part
// carries, in its own transaction, an undo record that says what its keys held
// before; the last transaction writes the new commit number and deletes the undo
// records. [Open] rolls back what undo records are left. The price of a large
// commit is one sync per part.
//
// A log is compacted by commits as well: the batches with stubs are put in the place of
// those that they were made from, if these are there, sound, and end with the same hash.
//
// # What is checked
//
// Every stored value carries a checksum over its key and its bytes, beside
// Badger's own, and the record of the last commit carries the number of keys and
// the sum of their checksums. Recover compares, so a table that went missing, or that
// Badger chose to ignore, is noticed even where nothing that remains is damaged.
// Damage is contained: what can be read is handed out, the rest is listed.
//
// # A full disk
//
// Badger writes through memory maps, where a full disk is not an error but a fatal
// signal. The store therefore looks before each commit whether the disk has room for
// everything that the commit can set off, and answers [ErrDiskFull] while nothing
// has been written; it also allocates the blocks of the write-ahead log ahead of
// their use. Once space is back, commits succeed again by themselves.
//
// After a commit that failed on the way, what is on disk is unknown until it has been
// read again: the store answers [ErrBroken] until it is reopened. A sync that
// failed is never tried again, since the kernel reports such an error only once.
package store
