package oci

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// maxSegmentFiles bounds the files of a container's log, since a container in a crash
// loop makes a small one with each run.
const maxSegmentFiles = 64

// segment is one file of a container's log. Only the logger of its run writes to it,
// so that a successor's logger and its predecessor's never meet in one file.
type segment struct {
	Run, Part uint64
	Size      int64
}

func (s segment) name() string { return fmt.Sprintf("%08d.%06d.log", s.Run, s.Part) }

// compare orders segments as they are to be read.
func (s segment) compare(o segment) int {
	return cmp.Or(cmp.Compare(s.Run, o.Run), cmp.Compare(s.Part, o.Part))
}

// segments lists a log's files in order; none if there is no such directory.
func segments(dir string) ([]segment, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list log segments: %w", err)
	}
	var list []segment
	for _, e := range entries {
		var s segment
		if _, err := fmt.Sscanf(e.Name(), "%d.%d.log", &s.Run, &s.Part); err != nil || s.name() != e.Name() {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // removed meanwhile
		}
		s.Size = info.Size()
		list = append(list, s)
	}
	slices.SortFunc(list, segment.compare)
	return list, nil
}

// surplus returns the oldest segments beyond the limits. The newest one and mine are
// never among them.
func surplus(list []segment, mine segment, limits LogLimits) []segment {
	total, count := int64(0), len(list)
	for _, s := range list {
		total += s.Size
	}
	most := limits.SegmentBytes * int64(limits.Segments)
	var old []segment
	for n, s := range list {
		if total <= most && count <= maxSegmentFiles {
			break
		}
		if n == len(list)-1 || s.compare(mine) == 0 {
			continue
		}
		old = append(old, s)
		total -= s.Size
		count--
	}
	return old
}

// prune removes what surplus finds.
func prune(dir string, mine segment, limits LogLimits) error {
	list, err := segments(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range surplus(list, mine, limits) {
		err := os.Remove(filepath.Join(dir, s.name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove an old log segment: %w", err))
		}
	}
	return errors.Join(errs...)
}

// greatestRun is the number of the latest run that left a log; 0 if none did.
func greatestRun(dir string) uint64 {
	list, err := segments(dir)
	if err != nil || len(list) == 0 {
		return 0
	}
	return list[len(list)-1].Run
}
