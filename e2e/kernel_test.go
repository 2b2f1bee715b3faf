package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// alive reports whether a process runs; a zombie does not.
func alive(pid int64) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, found := strings.Cut(string(raw), ") ")
	return found && !strings.HasPrefix(rest, "Z")
}

// networkOf is the identity of a process's network namespace.
func networkOf(t *testing.T, pid int64) uint64 {
	t.Helper()
	info, err := os.Stat(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		t.Fatalf("look at the network namespace of process %d: %v", pid, err)
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

// cgroupLimit reads a limit of the process's control group, by its name in version 1
// or in version 2.
func cgroupLimit(t *testing.T, pid int64, v1, v2 string) string {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	controller, _, _ := strings.Cut(v1, ".")
	for line := range strings.Lines(string(raw)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		path := filepath.Join("/sys/fs/cgroup", fields[1], fields[2], v1)
		if fields[0] == "0" && fields[1] == "" {
			path = filepath.Join("/sys/fs/cgroup", fields[2], v2)
		} else if fields[1] != controller && !strings.HasPrefix(fields[1], controller+",") {
			continue
		}
		if limit, err := os.ReadFile(path); err == nil {
			return strings.TrimSpace(string(limit))
		}
	}
	t.Fatalf("process %d is in no control group with %s or %s:\n%s", pid, v1, v2, raw)
	return ""
}

// awaitAnswer waits until a client on machine n itself gets this from the pod: a program
// may take a moment to listen, and a route to follow.
func (c *cluster) awaitAnswer(t *testing.T, n int, pod seen, want string) {
	t.Helper()
	until(t, fmt.Sprintf("m%d gets %q from %s", n, want, pod.url(t)), func() bool { return fetchFrom(c, n, pod.url(t)) == want })
}

// fetchFrom is what a client on machine n itself, not in a pod, gets from a URL, or the
// error.
func fetchFrom(c *cluster, n int, url string) string {
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
			within := c.lab.Within(n, func() error {
				// The socket is made in the machine's network here, and stays there.
				conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
				return err
			})
			return conn, within
		},
	}}
	answer, err := client.Get(url)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
