package sim

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"starling.dev/starling/crdt"
	"starling.dev/starling/store/storetest"
)

// TestDiskConforms holds the simulated disk to what the real one promises.
func TestDiskConforms(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Disk { return conforming{NewDisk()} })
}

type conforming struct{ *Disk }

func (d conforming) Recover() (storetest.Contents, error) {
	c := storetest.Contents{Clean: true}
	var err error
	c.HighWater, err = d.Batches(func(b crdt.Batch) error {
		c.Batches = append(c.Batches, b)
		return nil
	})
	local := d.Local()
	for _, key := range slices.Sorted(maps.Keys(local)) {
		c.Local = append(c.Local, crdt.LocalWrite{Key: key, Value: local[key]})
	}
	return c, err
}

func (d conforming) Crash() error { return d.Disk.Crash(false) }

func TestDiskFaults(t *testing.T) {
	d := NewDisk()
	put := func(v string) crdt.Commit {
		return crdt.Commit{Local: []crdt.LocalWrite{{Key: "k", Value: []byte(v)}}}
	}
	value := func() string { return string(d.Local()["k"]) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(d.Commit(put("1")))
	must(d.Write(put("2")))
	if must(d.Crash(false)); value() != "1" {
		t.Errorf("%q after a crash that lost the write", value())
	}
	must(d.Write(put("2")))
	if must(d.Crash(true)); value() != "2" {
		t.Errorf("%q after a crash that kept the write", value())
	}
	if must(d.Restore(1)); value() != "1" {
		t.Errorf("%q in the older copy", value())
	}
	d.full = true
	if err := d.Commit(put("3")); !errors.Is(err, errDiskFull) || value() != "1" {
		t.Errorf("a full disk says %v and holds %q", err, value())
	}
	d.Wipe()
	if value() != "" {
		t.Errorf("a wiped disk holds %q", value())
	}
}
