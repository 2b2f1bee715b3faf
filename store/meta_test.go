package store

import (
	"bytes"
	"testing"

	"starling.dev/starling/store/storetest"
)

// FuzzParseMeta: the record of the last commit, with whatever a disk makes of it.
func FuzzParseMeta(f *testing.F) {
	f.Add(meta{mark: mark{commit: 3, own: storetest.Own(storetest.Actor(1), 2)}, batches: digest{1, 2}}.write().value)
	f.Fuzz(func(t *testing.T, value []byte) {
		if m, err := parseMeta(value); err == nil && !bytes.Equal(m.write().value, value) {
			t.Fatalf("%x reads as %+v", value, m)
		}
	})
}
