package store

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// badgerOptions are tuned for a small machine with few, large, synced commits; the
// measurements behind each number are in docs/adr/0020-badger-tuning.md. Without
// compaction the database takes what the reserve has room for, and no more.
func badgerOptions(dir string, logger *slog.Logger, compact bool) badger.Options {
	o := badger.DefaultOptions(dir)
	o.Logger = badgerLogger{logger}
	o.SyncWrites = false      // see walKeeper.sync
	o.DetectConflicts = false // there is one writer
	o.MetricsEnabled = false
	o.NumGoroutines = 2

	o.MemTableSize = memTableSize
	o.NumMemtables = 2
	o.NumLevelZeroTables = 3
	o.NumLevelZeroTablesStall = 8
	o.NumCompactors = 2
	if !compact {
		o.NumCompactors = 0
		o.NumLevelZeroTablesStall = 1 << 20 // nobody would end the wait
	}

	// No value is above ValueThreshold (see partSize), so the value log stays
	// empty, needs no collection, and may be as small as Badger allows.
	o.ValueThreshold = 2 * partSize
	o.ValueLogFileSize = 1 << 20

	// Uncompressed tables are read straight from the page cache, which the kernel
	// takes back under pressure, instead of from a cache in our own heap.
	o.Compression = options.None
	o.BlockCacheSize = 0
	o.IndexCacheSize = 0
	o.ChecksumVerificationMode = options.OnBlockRead
	return o
}

// badgerLogger hands on what an operator should see. Badger's own progress lines
// are for debugging.
type badgerLogger struct{ log *slog.Logger }

func (l badgerLogger) Errorf(f string, a ...any)   { l.log.Error(line(f, a), "part", "badger") }
func (l badgerLogger) Warningf(f string, a ...any) { l.log.Warn(line(f, a), "part", "badger") }
func (l badgerLogger) Infof(string, ...any)        {}
func (l badgerLogger) Debugf(string, ...any)       {}

func line(f string, a []any) string { return strings.TrimSpace(fmt.Sprintf(f, a...)) }
