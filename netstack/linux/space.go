package linux

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack"
)

// space is an open network namespace and the means to read and change it. Its methods
// may be called concurrently.
type space struct {
	fd int
	nl *netlink.Handle
	// writes counts everything that was changed in the kernel: an apply that finds
	// the plan in place adds nothing.
	writes *atomic.Int64
}

// newSpace takes over fd, which close closes.
func newSpace(fd int, writes *atomic.Int64) (*space, error) {
	nl, err := netlink.NewHandleAt(netns.NsHandle(fd), unix.NETLINK_ROUTE)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	// With strict checks the kernel filters what it lists, by link and protocol.
	if err := nl.SetStrictCheck(true); err != nil {
		nl.Close()
		unix.Close(fd)
		return nil, fmt.Errorf("set up the netlink socket (Linux 4.20 or later is needed): %w", err)
	}
	return &space{fd: fd, nl: nl, writes: writes}, nil
}

func (s *space) close() {
	s.nl.Close()
	unix.Close(s.fd)
}

// wrote counts a change and gives its error a name.
func (s *space) wrote(err error, what fmt.Stringer) error {
	if err != nil {
		return fmt.Errorf("set %q: %w", what, err)
	}
	s.writes.Add(1)
	return nil
}

// named is the name of a thing that is no item of a plan.
type named string

func (n named) String() string { return string(n) }

func sysctlPath(key string) string { return "/proc/sys/" + key }

// setSysctls writes those settings that differ. /proc/sys shows the settings of the
// namespace of the thread that opens it.
func (s *space) setSysctls(want []netstack.Sysctl) error {
	return Within(s.fd, func() error {
		for _, w := range want {
			if err := s.setSysctl(w); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *space) setSysctl(w netstack.Sysctl) error {
	have, err := os.ReadFile(sysctlPath(w.Key))
	if err != nil {
		return fmt.Errorf("read %q: %w", w, err)
	}
	if strings.TrimSpace(string(have)) == w.Value {
		return nil
	}
	return s.wrote(os.WriteFile(sysctlPath(w.Key), []byte(w.Value), 0o644), w)
}

// sysctls reads settings; those that can't be read are left out.
func (s *space) sysctls(keys []string) map[string]string {
	values := map[string]string{}
	_ = Within(s.fd, func() error {
		for _, k := range keys {
			if b, err := os.ReadFile(sysctlPath(k)); err == nil {
				values[k] = strings.TrimSpace(string(b))
			}
		}
		return nil
	})
	return values
}
