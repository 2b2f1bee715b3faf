package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"starling.dev/starling/netstack"
)

// conntrack is how full the kernel's table of connections is. Masquerading, services and
// policies need an entry for each connection, and packets of new ones are dropped when
// there is no room.
type conntrack struct {
	entries, room uint64
	// dropped counts packets that found no room, and evicted connections that were
	// forgotten early to make some, since the machine has booted.
	dropped, evicted uint64
}

const (
	conntrackEntries = "net/netfilter/nf_conntrack_count"
	conntrackRoom    = "net/netfilter/nf_conntrack_max"
)

// conntrack reads the figures; ok is false where nothing has asked for the table yet.
func (n *Network) conntrack() (c conntrack, ok bool, err error) {
	have := n.host.sysctls([]string{conntrackEntries, conntrackRoom})
	if c.entries, err = strconv.ParseUint(have[conntrackEntries], 10, 64); err != nil {
		return c, false, nil // the kernel has no such setting before the module is there
	}
	if c.room, err = strconv.ParseUint(have[conntrackRoom], 10, 64); err != nil {
		return c, false, nil
	}
	err = Within(n.host.fd, func() error {
		raw, err := os.ReadFile("/proc/thread-self/net/stat/nf_conntrack")
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			c.dropped, c.evicted, err = sumConntrack(string(raw))
		}
		return err
	})
	if err != nil {
		return c, false, fmt.Errorf("read the figures of connection tracking: %w", err)
	}
	return c, true, nil
}

// sumConntrack adds up the columns "drop" and "early_drop" of the kernel's table: a line of names,
// then one of hexadecimal numbers for each processor.
func sumConntrack(table string) (dropped, evicted uint64, err error) {
	lines := strings.Split(strings.TrimSpace(table), "\n")
	names := strings.Fields(lines[0])
	for _, line := range lines[1:] {
		for i, field := range strings.Fields(line) {
			if i >= len(names) || names[i] != "drop" && names[i] != "early_drop" {
				continue
			}
			v, err := strconv.ParseUint(field, 16, 64)
			if err != nil {
				return 0, 0, fmt.Errorf("read column %s of %q: %w", names[i], line, err)
			}
			if names[i] == "drop" {
				dropped += v
			} else {
				evicted += v
			}
		}
	}
	return dropped, evicted, nil
}

// String prints "conntrack 12 of 262144 connections, 0 packets dropped, 0 connections
// evicted".
func (c conntrack) String() string {
	return fmt.Sprintf("conntrack %d of %d connections, %d packets dropped, %d connections evicted", c.entries, c.room, c.dropped, c.evicted)
}

// tightPercent is how full the table may be before the doctor says so.
const tightPercent = 80

// finding is what the doctor says of the table; ok is false if there is nothing to say.
func (c conntrack) finding() (f Finding, ok bool) {
	remedy := "run: sysctl -w " + netstack.Sysctl{Key: conntrackRoom, Value: strconv.FormatUint(2*c.room, 10)}.Setting() +
		" (on the computer itself, and in /etc/sysctl.d to keep it), and look with `conntrack -L` for who opens so many"
	switch {
	case c.room > 0 && c.entries*100 >= c.room*tightPercent:
		return Finding{"conntrack", fmt.Sprintf("the table of connections holds %d of at most %d: when it is full, new connections are dropped", c.entries, c.room), remedy}, true
	case c.dropped > 0:
		return Finding{"conntrack", fmt.Sprintf("the table of connections has been full (%d at most), and %d packets were dropped for that", c.room, c.dropped), remedy}, true
	}
	return f, false
}

// checkConntrack looks how full the table of connections is.
func (n *Network) checkConntrack() ([]Finding, error) {
	c, ok, err := n.conntrack()
	if err != nil || !ok {
		return nil, err
	}
	if f, tight := c.finding(); tight {
		return []Finding{f}, nil
	}
	return nil, nil
}
