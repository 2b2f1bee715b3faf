package e2e

import (
	"strings"
	"testing"
)

// labelled gives the machines the labels that the causes of pods ask for.
func labelled(t *testing.T, c *cluster) {
	t.Helper()
	c.must(t, 2, "machine", "label", "m2", "disk=ssd", "zone=a")
	c.must(t, 2, "machine", "label", "m1", "zone=b")
}

// podCauses lie in the pod's spec, its image, and what its program does.
func podCauses() []cause {
	return []cause{
		{
			name: "image missing",
			pod:  podSpec{image: "localhost/nosuch:1"},
			says: `: image on m\d: image localhost/nosuch:1 is not on this machine; load it with .*peer image load`,
			todo: "peer image load", step: "image is retrying on m",
		}, {
			name: "registry with no address",
			pod:  podSpec{image: "registry.invalid/nosuch:1"},
			says: `: image on m\d: registry registry\.invalid is not to be reached for image registry\.invalid/nosuch:1: .*tried again`,
			todo: "Check the registry", step: "image is retrying on m",
		}, {
			name: "no machine with enough memory",
			pod:  podSpec{memory: "4Gi"},
			says: `: schedule: no machine fits: m1 memory: needs 4Gi, has \d+Mi free of 512Mi; ` +
				`m2 memory: needs 4Gi, has \d+Mi free of 512Mi; m3 memory: needs 4Gi, has [\d.]+[MG]i free of 1Gi`,
			todo: "Ask for less", step: "schedule is blocked on m",
		}, {
			name: "no machine with enough cores",
			pod:  podSpec{cpu: "2500m"},
			says: `: schedule: no machine fits: m1 cpu: needs 2500m, has \d+m? free of 2; m2 cpu: .*; m3 cpu: .* free of 2`,
			todo: "Ask for less", step: "schedule is blocked on m",
		}, {
			name: "label that no machine has",
			pod:  podSpec{require: "disk: sdd"},
			says: `: schedule: no machine has the label disk=sdd; the nearest that exists is disk=ssd`,
			todo: "Add the label to a machine", step: "schedule is blocked on m",
			mend: func(t *testing.T, c *cluster, _ string) {
				c.must(t, 2, "machine", "label", "m3", "disk=sdd")
				t.Cleanup(func() { c.must(t, 2, "machine", "label", "m3", "disk-") })
			},
		}, {
			name: "labels that no machine has together",
			pod:  podSpec{require: "disk: ssd, zone: b"},
			says: `: schedule: no machine fits: m1 has no label disk \(needs disk=ssd\); ` +
				`m2 has zone=a \(needs zone=b\); m3 has no label disk \(needs disk=ssd\)`,
			step: "schedule is blocked on m",
		}, {
			name: "crash loop",
			pod:  podSpec{args: `[--listen=, --lines, "25", --exit-after, 0s, --exit-code, "7"]`},
			says: `: container on m\d: container app exited with code 7; its last lines:\n` +
				`hello: line 7\n(hello: line \d+\n){18}hello: exiting with code 7; it is tried again in [\d.]+m?s \(failure \d+ in a row\)`,
			todo: "peer logs", step: "container is retrying on m",
		}, {
			name: "container that exits well but should run",
			pod:  podSpec{args: `[--listen=, --exit-after, 0s]`},
			says: `: container on m\d: container app exited with code 0; its last lines:\s*hello: exiting with code 0`,
			todo: "peer logs", step: "container is retrying on m",
		}, {
			name: "out of memory",
			pod:  podSpec{args: `[--listen=, --allocate, "100000000"]`, memory: "20Mi"},
			says: `: container on m\d: container app was killed: it used more memory than its limit`,
			todo: "Raise resources.memory", step: "container is retrying on m",
		}, {
			name: "command that is not in the image",
			pod:  podSpec{args: `[]`, image: helloImage + "\n      command: [/bin/nosuch]"},
			says: `: container on m\d: .*/bin/nosuch.*tried again`,
			step: "container is retrying on m",
		},
	}
}

// probeCauses are containers that run and do not do their work.
func probeCauses() []cause {
	with := func(probe string) func(string) string {
		return func(name string) string { return probed(name, serve, probe) }
	}
	// mended gives the probe a path that answers.
	mended := func(probe string) func(*testing.T, *cluster, string) {
		return func(t *testing.T, c *cluster, key string) {
			c.apply(t, 1, "alice", probed(key, serve, strings.Replace(probe, "/nosuch", "/ready", 1)))
		}
	}
	const (
		readiness = `readiness: {http: ":8080/nosuch", period: 500ms, failures: 2}`
		liveness  = `liveness: {http: ":8080/nosuch", period: 300ms, failures: 2}`
	)
	return []cause{
		{
			name: "readiness failing", spec: with(readiness), mend: mended(readiness),
			says: `: ready: the readiness probe of container app \(GET :8080/nosuch\) fails: the answer is 404 Not Found`,
			todo: "peer forward", step: "ready is blocked on m",
		}, {
			name: "liveness failing", spec: with(liveness), mend: mended(liveness),
			says: `: container on m\d: the liveness probe of container app \(GET :8080/nosuch\) fails: the answer is 404 Not Found; it is tried again`,
			todo: "peer logs --previous", step: "container is retrying on m",
		}, {
			name: "startup failing", spec: with(`startup: {tcp: 9, period: 200ms, failures: 3}`),
			says: `: container on m\d: the startup probe of container app \(TCP :9\) fails: `,
			todo: "raise the probe's failures or period", step: "container is retrying on m",
		},
	}
}
