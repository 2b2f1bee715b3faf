package oci

import (
	"context"
	"net"
	"testing"
)

func connTo(ns string, port uint16) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return DialPod(ctx, ns, port) }
}

func TestRunsAndAdopts(t *testing.T) {
	f := newFixture(t)
	f.pod.NetNS = netns(t, "adopt")
	spec := app()
	spec.Args = []string{"--listen", "[::]:8080"}
	spec.Env = map[string]string{"GREETING": "good day"}
	first := f.ensure(spec)[0]
	if !alive(first.PID) {
		t.Fatalf("process %d does not run", first.PID)
	}
	second := f.again().ensure(spec)[0]
	if second != first {
		t.Errorf("a second peer found %+v, not the first one's %+v", second, first)
	}
}
