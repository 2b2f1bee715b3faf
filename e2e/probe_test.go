package e2e

import (
	"strings"
	"testing"
)

// probed is a pod of one container with the given probes, as YAML lines.
func probed(name, args string, probes ...string) string {
	spec := podSpec{name: name, args: args}.String()
	return strings.Replace(spec, "      image:", "      probes:\n        "+strings.Join(probes, "\n        ")+"\n      image:", 1)
}

// Every way of asking reaches the container: its HTTP and TCP ports at the loopback
// address, its commands, and each tells good from bad.
func TestReadinessWaitsForItsProbe(t *testing.T) {
	c := need(t)
	for _, tt := range []struct{ name, probe, bad, says string }{
		{"http", `readiness: {http: ":8080/ready", period: 500ms, failures: 2}`, `readiness: {http: ":8080/nosuch", period: 500ms, failures: 2}`,
			`ready: the readiness probe of container app \(GET :8080/nosuch\) fails: the answer is 404 Not Found`},
		{"tcp", `readiness: {tcp: 8080, period: 500ms, failures: 2}`, `readiness: {tcp: 8081, period: 500ms, failures: 2}`,
			`ready: the readiness probe of container app \(TCP :8081\) fails: .*connection refused`},
		{"exec", `readiness: {exec: [/bin/hello, --get, "http://[::1]:8080/ready"], timeout: 5s, period: 500ms, failures: 2}`,
			`readiness: {exec: [/bin/hello, --get, "http://[::1]:8080/nosuch"], timeout: 5s, period: 500ms, failures: 2}`,
			`ready: the readiness probe of container app .* fails: it exited with code 1: .*404 Not Found`},
		{"grpc", "", `readiness: {grpc: 8080, period: 500ms, failures: 2, timeout: 500ms}`, `ready: the readiness probe of container app \(gRPC :8080\) fails: `},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			name := "probe-" + tt.name
			c.remove(t, name)
			c.apply(t, 1, "alice", probed(name, serve, tt.bad))
			for n := 1; n <= machines; n++ {
				c.awaitWhy(t, n, name, tt.says)
			}
			bad := c.current(t, 1, name)
			if bad.status("machine") == "" || bad.number("containers.app.pid") == 0 {
				t.Errorf("a pod that is not ready should run; it is %v", bad)
			}
			if tt.probe == "" {
				return
			}
			c.apply(t, 1, "alice", probed(name, serve, tt.probe))
			good := c.awaitReady(t, 2, name)
			if bad.number("containers.app.pid") != good.number("containers.app.pid") {
				t.Error("a change of its probe restarted the container")
			}
		})
	}
}

// A container whose liveness probe fails is restarted in place.
func TestLivenessRestartsTheContainer(t *testing.T) {
	c := need(t)
	c.remove(t, "alive")
	c.apply(t, 1, "alice", probed("alive", serve, `liveness: {http: ":8080/", period: 300ms, failures: 2}`))
	before := c.awaitReady(t, 1, "alive")
	c.apply(t, 1, "alice", probed("alive", serve, `liveness: {http: ":8080/nosuch", period: 300ms, failures: 2}`))
	for n := 1; n <= machines; n++ {
		c.awaitWhy(t, n, "alive", `container on m\d: the liveness probe of container app \(GET :8080/nosuch\) fails: the answer is 404 Not Found; it is tried again`)
	}
	c.apply(t, 1, "alice", probed("alive", serve, `liveness: {http: ":8080/", period: 300ms, failures: 2}`))
	after := c.awaitReady(t, 3, "alive")
	if before.number("containers.app.pid") == after.number("containers.app.pid") {
		t.Error("the container was not restarted")
	}
	if before.status("address") != after.status("address") || before.status("machine") != after.status("machine") {
		t.Error("the pod was moved; it should be restarted in place")
	}
}

// A container that takes its time is not asked by its other probes before it started.
func TestStartupHoldsTheOthersBack(t *testing.T) {
	c := need(t)
	c.remove(t, "slow")
	c.apply(t, 1, "alice", probed("slow", serve,
		`startup: {http: ":8080/ready", period: 200ms, failures: 100}`, `liveness: {http: ":8080/", period: 200ms, failures: 1}`))
	c.awaitReady(t, 1, "slow")
	c.remove(t, "stuck")
	c.apply(t, 1, "alice", probed("stuck", serve, `startup: {tcp: 9, period: 200ms, failures: 3}`))
	c.awaitWhy(t, 2, "stuck", `container on m\d: the startup probe of container app \(TCP :9\) fails: `)
}

// Readiness is written when it changes, and measurements never are.
func TestProbesWriteNothingAtRest(t *testing.T) {
	c := need(t)
	c.remove(t, "quiet")
	c.apply(t, 1, "alice", probed("quiet", serve, `readiness: {http: ":8080/ready", period: 100ms}`))
	c.awaitReady(t, 1, "quiet")
	events := func() string { return c.must(t, 1, "events", "quiet") }
	before := events()
	served := 0
	until(t, "some more answers", func() bool { served++; return served > 50 })
	if after := events(); after != before {
		t.Errorf("events before:\n%s\nand after %d probes:\n%s", before, served, after)
	}
	says(t, before, "ready")
}
