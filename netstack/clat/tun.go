package clat

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const tunDevice = "/dev/net/tun"

// Offloads that every kernel since 2.6.27 has, and those that came with 6.2.
const (
	tcpOffloads = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6 | unix.TUN_F_TSO_ECN
	udpOffloads = unix.TUN_F_USO4 | unix.TUN_F_USO6
)

// tun is an open TUN link.
type tun struct {
	name string
	file *os.File
	raw  syscall.RawConn
}

// openTUN opens the TUN link in the network namespace of the calling thread, and makes
// it if it is not there.
func openTUN(name string) (*tun, error) {
	fd, err := unix.Open(tunDevice, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w; load the kernel module tun", tunDevice, err)
	}
	if err := setUpTUN(fd, name); err != nil {
		unix.Close(fd)
		return nil, err
	}
	// From here on the runtime's poller owns the descriptor; it can be polled only once
	// it is attached to a link.
	file := os.NewFile(uintptr(fd), tunDevice)
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("poll the TUN link %s: %w", name, err)
	}
	return &tun{name: name, file: file, raw: raw}, nil
}

func setUpTUN(fd int, name string) error {
	req, err := unix.NewIfreq(name)
	if err != nil {
		return fmt.Errorf("name a TUN link %q: %w", name, err)
	}
	req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("attach to the TUN link %s: another process holds it: %w", name, err)
		}
		return fmt.Errorf("attach to the TUN link %s: %w", name, err)
	}
	if err := unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 1); err != nil {
		return fmt.Errorf("keep the TUN link %s: %w", name, err)
	}
	if unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, tcpOffloads|udpOffloads) == nil {
		return nil
	}
	if err := unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, tcpOffloads); err != nil {
		return fmt.Errorf("offer offloads on the TUN link %s: %w", name, err)
	}
	return nil
}

// burst is how many packets a link may hand over before others have their turn.
const burst = 256

// drain calls got for each packet that waits on the link, with its virtio header, until
// stop is called. buffer is called when packets may be there and returns where to read
// them into: the largest one must fit. idle is called when there are none, or after a
// burst.
func (t *tun) drain(buffer func() []byte, got func([]byte), idle func()) error {
	var failed error
	err := t.raw.Read(func(fd uintptr) bool {
		for {
			more, err := readBurst(int(fd), buffer(), got)
			idle()
			if err != nil {
				failed = err
				return true
			}
			if !more {
				return false // the poller waits and calls again
			}
		}
	})
	return errors.Join(failed, err)
}

// readBurst reads up to a burst of packets, and tells whether more may be waiting.
func readBurst(fd int, b []byte, got func([]byte)) (more bool, err error) {
	for range burst {
		n, err := unix.Read(fd, b)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("read from a TUN link: %w", err)
		default:
			got(b[:n])
		}
	}
	return true, nil
}

// write sends one packet with its virtio header. The kernel takes it at once or drops it.
func (t *tun) write(b []byte) error {
	var failed error
	err := t.raw.Write(func(fd uintptr) bool {
		for {
			_, failed = unix.Write(int(fd), b)
			if !errors.Is(failed, unix.EINTR) {
				return true
			}
		}
	})
	return errors.Join(failed, err)
}

// stop makes drain return.
func (t *tun) stop() { _ = t.file.SetReadDeadline(time.Unix(1, 0)) }

// close lets go of the link, which stays.
func (t *tun) close() error { return t.file.Close() }

// remove takes the link away.
func (t *tun) remove() error {
	var failed error
	err := t.raw.Control(func(fd uintptr) { failed = unix.IoctlSetInt(int(fd), unix.TUNSETPERSIST, 0) })
	return errors.Join(failed, err, t.file.Close())
}
