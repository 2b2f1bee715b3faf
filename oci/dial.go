package oci

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// DialPod opens a TCP connection to a port inside of a pod's network namespace, as a
// process of the pod would to its own loopback address: IPv6 first, then IPv4.
func DialPod(ctx context.Context, netnsPath string, port uint16) (net.Conn, error) {
	loopback := []netip.Addr{netip.IPv6Loopback(), netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	var first error
	for _, address := range loopback {
		conn, err := dialInside(ctx, netnsPath, netip.AddrPortFrom(address, port))
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, fmt.Errorf("connect to port %s of the pod: %w", strconv.Itoa(int(port)), first)
}

// dialInside makes the socket on a thread that has entered the namespace. A socket
// stays in the namespace in which it was made, whichever thread uses it later. The
// thread is never given back: it ends with its goroutine, so that no other goroutine
// can come to run in the pod's namespace.
func dialInside(ctx context.Context, netnsPath string, to netip.AddrPort) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread()
		conn, err := dialHere(ctx, netnsPath, to)
		done <- result{conn, err}
	}()
	r := <-done
	return r.conn, r.err
}

// dialHere moves the calling thread. Dialling one literal address makes its socket on
// the calling goroutine.
func dialHere(ctx context.Context, netnsPath string, to netip.AddrPort) (net.Conn, error) {
	ns, err := os.Open(netnsPath)
	if err != nil {
		return nil, fmt.Errorf("open the pod's network namespace: %w", err)
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("enter the pod's network namespace %s: %w", netnsPath, err)
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", to.String())
}
