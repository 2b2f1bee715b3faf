package e2e

import (
	"regexp"
	"testing"
	"time"
)

// A cause is a pod that can't be what it should, and what `peer why` says about it.
// Later kinds of trouble are further lines.
type cause struct {
	pod podSpec
	// says is the cause in one sentence, as a regular expression.
	says string
	// todo is part of what `peer why` tells to do; the chain ends at step.
	todo, step string
	// mend takes the cause out of the way; then the pod must be ready.
	mend func(t *testing.T, c *cluster)
}

func causes() map[string]cause {
	return map[string]cause{
		"image missing": {
			pod:  podSpec{image: "localhost/nosuch:1"},
			says: `image on m\d: image localhost/nosuch:1 is not on this machine; load it with .*peer image load`,
			todo: "peer image load", step: "image is retrying on m",
		},
		"registry out of reach": {
			pod:  podSpec{image: "registry.invalid/nosuch:1"},
			says: `image on m\d: registry registry\.invalid is not to be reached for image registry\.invalid/nosuch:1: .*tried again`,
			todo: "Check the registry", step: "image is retrying on m",
		},
		"no machine with enough memory": {
			pod: podSpec{memory: "4Gi"},
			says: `schedule: no machine fits: m1 memory: needs 4Gi, has \d+Mi free of 512Mi; ` +
				`m2 memory: needs 4Gi, has \d+Mi free of 512Mi; m3 memory: needs 4Gi, has [\d.]+[MG]i free of 1Gi`,
			todo: "Ask for less", step: "schedule is blocked on m",
		},
		"no machine with enough cores": {
			pod:  podSpec{cpu: "2500m"},
			says: `schedule: no machine fits: m1 cpu: needs 2500m, has \d+m? free of 2; m2 cpu: .*; m3 cpu: .* free of 2`,
			todo: "Ask for less", step: "schedule is blocked on m",
		},
		"label that no machine has": {
			pod:  podSpec{require: "disk: sdd"},
			says: `schedule: no machine has the label disk=sdd; the nearest that exists is disk=ssd`,
			todo: "Add the label to a machine", step: "schedule is blocked on m",
			mend: func(t *testing.T, c *cluster) {
				c.must(t, 2, "machine", "label", "m3", "disk=sdd")
				t.Cleanup(func() { c.must(t, 2, "machine", "label", "m3", "disk-") })
			},
		},
		"labels that no machine has together": {
			pod: podSpec{require: "disk: ssd, zone: b"},
			says: `schedule: no machine fits: m1 has no label disk \(needs disk=ssd\); ` +
				`m2 has zone=a \(needs zone=b\); m3 has no label disk \(needs disk=ssd\)`,
			step: "schedule is blocked on m",
		},
		"container that exits at once": {
			pod:  podSpec{args: `[--listen=, --exit-after, 0s, --exit-code, "7"]`},
			says: `container on m\d: container app exited with code 7; its last lines:\s*hello: exiting with code 7.*tried again`,
			todo: "peer logs", step: "container is retrying on m",
		},
		"container that exits well but should run": {
			pod:  podSpec{args: `[--listen=, --exit-after, 0s]`},
			says: `container on m\d: container app exited with code 0; its last lines:\s*hello: exiting with code 0`,
			todo: "peer logs", step: "container is retrying on m",
		},
		"out of memory": {
			pod:  podSpec{args: `[--listen=, --allocate, "100000000"]`, memory: "20Mi"},
			says: `container on m\d: container app was killed: it used more memory than its limit`,
			todo: "Raise resources.memory", step: "container is retrying on m",
		},
		"command that is not in the image": {
			pod:  podSpec{more: "", args: `[]`, image: helloImage + "\n      command: [/bin/nosuch]"},
			says: `container on m\d: .*/bin/nosuch.*tried again`,
			step: "container is retrying on m",
		},
	}
}

func TestWhyNamesTheTrueCause(t *testing.T) {
	c := need(t)
	c.must(t, 2, "machine", "label", "m2", "disk=ssd", "zone=a")
	c.must(t, 2, "machine", "label", "m1", "zone=b")
	for name, w := range causes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w.pod.name = "why-" + regexp.MustCompile(`[^a-z]+`).ReplaceAllString(name, "-")
			c.remove(t, w.pod.name)
			c.apply(t, 1, "alice", w.pod.String())
			for n := 1; n <= machines; n++ {
				c.awaitWhy(t, n, w.pod.name, w.says)
			}
			a := c.ask(t, 3, "", "why", w.pod.name)
			says(t, a.out, "ready waits for running", w.step)
			if w.todo != "" {
				says(t, a.out, "to do: ", w.todo)
			}
			if w.mend != nil {
				w.mend(t, c)
				c.awaitReady(t, 1, w.pod.name)
			}
		})
	}
}

// awaitWhy asks until the cause is the expected one: causes take their time to show.
func (c *cluster) awaitWhy(t *testing.T, n int, key, sentence string) {
	t.Helper()
	c.awaitText(t, n, key, blockedBy(sentence))
}

// blockedBy matches the answer of `peer why` for a pod that can't be what it should.
func blockedBy(sentence string) *regexp.Regexp {
	return regexp.MustCompile(`(?s)^(failed|blocked): pod/[a-z-]+: ` + sentence)
}

// whyOnly matches a sentence wherever it stands in the answer.
func whyOnly(sentence string) *regexp.Regexp { return regexp.MustCompile(`(?s)` + sentence) }

// awaitText asks `peer why` until its answer matches.
func (c *cluster) awaitText(t *testing.T, n int, key string, pattern *regexp.Regexp) string {
	t.Helper()
	var a answer
	deadline := time.Now().Add(patience)
	until(t, "the true cause", func() bool {
		a = c.ask(t, n, "", "why", key)
		if time.Now().After(deadline.Add(-time.Second)) {
			t.Fatalf("why %s at m%d does not match\n%s\nbut says %v", key, n, pattern, a)
		}
		return pattern.MatchString(a.out)
	})
	return a.out
}

func TestWhyOfWhatIsWell(t *testing.T) {
	c := need(t)
	c.remove(t, "well")
	c.apply(t, 1, "alice", podSpec{name: "well", args: serve}.String())
	s := c.awaitReady(t, 2, "well")
	says(t, c.must(t, 2, "why", "well"), "converged: pod/well is ready on "+s.status("machine"), "as seen from m2")
	says(t, c.must(t, 1, "why", "machine/m3"), "converged: machine/m3 is ready")
	refuses(t, c.ask(t, 1, "", "why", "nobody"), "pod/nobody does not exist")
}

// A container that ends is done with `restart: never`, and so is the pod.
func TestContainerThatMayEnd(t *testing.T) {
	c := need(t)
	c.remove(t, "ended")
	c.apply(t, 1, "alice", podSpec{name: "ended", args: `[--listen=, --exit-after, 0s, --exit-code, "3"]`, restart: "never"}.String())
	s := c.await(t, 3, "ended", "over", func(s seen) bool { return s.number("containers.app.exit") == 3 })
	if s.GetObject().GetVerdict() != "converged" {
		t.Errorf("a container that may end and ended is %s: %v", s.GetObject().GetVerdict(), c.ask(t, 3, "", "why", "ended"))
	}
}

// The counter tells how often a container was started again.
func TestRestartsAreCounted(t *testing.T) {
	c := need(t)
	c.remove(t, "counted")
	c.apply(t, 1, "alice", podSpec{name: "counted", args: `[--listen=, --exit-after, 300ms, --exit-code, "1"]`}.String())
	c.await(t, 2, "counted", "restarted twice", func(s seen) bool { return s.number("containers.app.restarts") >= 2 })
	until(t, "logs of the run before", func() bool {
		a := c.ask(t, 2, "", "logs", "counted", "--previous")
		return a.code == 0 && a.out == "hello: exiting with code 1\n"
	})
}
