package oci

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// followPatience is how long a follower waits for an old run's last words once a
// later run has begun to write, if the old run's logger died without a closing line.
// It also bounds every wait, in case the kernel drops notices.
const followPatience = time.Second

// followLog reads what there is and then what comes.
func followLog(ctx context.Context, dir string, o LogOptions, each func(LogLine) error) error {
	// Watching begins before reading, so that nothing falls between.
	notices, err := watchDir(dir)
	if err != nil {
		return err
	}
	defer notices.close()
	list, err := segments(dir)
	if err != nil {
		return err
	}
	at, err := readSegments(ctx, dir, list, o, each)
	for err == nil && ctx.Err() == nil {
		waited, gone := notices.wait(ctx)
		if gone {
			return nil
		}
		err = at.advance(dir, waited, o.Since, each)
	}
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// advance reads what is new in the cursor's segment and moves on through those after
// it. patient: the wait before this was in vain.
func (c *cursor) advance(dir string, patient bool, since time.Time, each func(LogLine) error) error {
	for {
		// The list is taken before reading: what a writer wrote before it opened the
		// next segment is then sure to be read first.
		list, err := segments(dir)
		if err != nil {
			return err
		}
		if err := c.read(dir, since, each); err != nil {
			return err
		}
		next, ok := c.next(list, patient)
		if !ok {
			return nil
		}
		*c = cursor{at: next}
	}
}

// next returns the segment to go on with, if it is time to leave the present one: the
// same run's next one at once, a later run's once that has written something and this
// one has ended.
func (c *cursor) next(list []segment, patient bool) (segment, bool) {
	at := slices.IndexFunc(list, func(s segment) bool { return s.compare(c.at) > 0 })
	if at < 0 {
		return segment{}, false
	}
	next := list[at]
	here := slices.ContainsFunc(list, func(s segment) bool { return s.compare(c.at) == 0 })
	sameRun := next.Run == c.at.Run
	return next, sameRun || !here || (next.Size > 0 && (c.ended || patient))
}

// dirNotices tells when something changes in a directory.
type dirNotices struct{ file *os.File }

func watchDir(dir string) (*dirNotices, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("follow the log: %w", err)
	}
	n := &dirNotices{os.NewFile(uintptr(fd), "inotify")}
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_MODIFY|unix.IN_CREATE|unix.IN_DELETE_SELF|unix.IN_ONLYDIR); err != nil {
		n.close()
		return nil, fmt.Errorf("follow the log: %w", err)
	}
	return n, nil
}

func (n *dirNotices) close() { n.file.Close() }

// wait returns when something changed, when ctx is done, or, with waited, after
// followPatience. gone: the directory was removed.
func (n *dirNotices) wait(ctx context.Context) (waited, gone bool) {
	if err := n.file.SetReadDeadline(time.Now().Add(followPatience)); err != nil {
		return false, true
	}
	stop := context.AfterFunc(ctx, func() { n.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buffer := make([]byte, 4096)
	read, err := n.file.Read(buffer)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return true, false
	}
	if err != nil {
		return false, errors.Is(err, fs.ErrClosed)
	}
	return false, dirGone(buffer[:read])
}

// dirGone looks for the notice that the directory itself was removed.
func dirGone(notices []byte) bool {
	const head = unix.SizeofInotifyEvent
	for len(notices) >= head {
		mask := binary.NativeEndian.Uint32(notices[4:8])
		if mask&(unix.IN_DELETE_SELF|unix.IN_IGNORED) != 0 {
			return true
		}
		size := head + int(binary.NativeEndian.Uint32(notices[12:16]))
		notices = notices[min(size, len(notices)):]
	}
	return false
}
