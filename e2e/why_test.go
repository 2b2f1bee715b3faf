package e2e

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// A cause is one thing that keeps an object from being what it should, and what `peer
// why` says about it. The suite is made of tables of them, below in the files why_*: a
// new kind of trouble, and a new kind of object, is one more line.
type cause struct {
	name string
	// stage brings the cause about, before the object is applied. It may be nil.
	stage func(t *testing.T, c *cluster)
	// pod is what is applied, under a name made of the cause's, unless spec returns
	// something else to apply, or key names what is there already.
	pod  podSpec
	spec func(name string) string
	key  string
	// after happens once the object is applied: it is deleted, say. It may be nil.
	after func(t *testing.T, c *cluster, key string)
	// at are the machines that are asked; all if there are none.
	at []int
	// verdict is one of the four words, or several with | between them; empty for failed
	// or blocked.
	verdict string
	// says is the cause in one sentence, as a regular expression.
	says string
	// todo is part of what `peer why` tells to do; the chain ends at step.
	todo, step string
	// mend takes the cause out of the way; then the object must be ready, or, with gone,
	// no longer be there.
	mend func(t *testing.T, c *cluster, key string)
	gone bool
}

// group is a table of causes that share what they need of the lab.
type group struct {
	name string
	// prepare makes what all causes of the group need, and registers its end.
	prepare func(t *testing.T, c *cluster)
	causes  []cause
	// alone: each of them breaks the lab, so that they come one after the other.
	alone bool
}

// leastCauses is how many causes the suite proves at least.
const leastCauses = 22

// groups are in the order in which they run: what breaks the lab comes last.
func groups() []group {
	return []group{
		{name: "pods", prepare: labelled, causes: append(podCauses(), probeCauses()...)},
		{name: "registries", prepare: withRegistries, causes: registryCauses()},
		{name: "objects", prepare: withObjects, causes: objectCauses(), alone: true},
		{name: "hostports", prepare: withHostPorts, causes: hostPortCauses()},
		{name: "loops", prepare: withLoops, causes: loopCauses()},
		{name: "detached", causes: detachedCauses(), alone: true},
		{name: "silent", prepare: silentMachine, causes: silentCauses()},
		{name: "machines", causes: machineCauses(), alone: true},
	}
}

func TestWhy(t *testing.T) {
	c := need(t)
	count := 0
	for _, g := range groups() {
		count += len(g.causes)
		t.Run(g.name, func(t *testing.T) {
			if g.prepare != nil {
				g.prepare(t, c)
			}
			for _, w := range g.causes {
				t.Run(w.name, func(t *testing.T) {
					if !g.alone {
						t.Parallel()
					}
					c.prove(t, w)
				})
			}
		})
	}
	if count < leastCauses {
		t.Errorf("the suite has %d causes; it promises %d", count, leastCauses)
	}
}

// prove brings one cause about, asks for it everywhere, and takes it away again.
func (c *cluster) prove(t *testing.T, w cause) {
	if w.stage != nil {
		w.stage(t, c)
	}
	key := w.key
	if key == "" {
		if key = w.pod.name; key == "" {
			key = w.object()
		}
		spec := w.spec
		if spec == nil {
			spec = func(string) string { return w.pod.String() }
			w.pod.name = key
		}
		c.remove(t, key)
		c.apply(t, 1, "alice", spec(key))
	}
	if w.after != nil {
		w.after(t, c, key)
	}
	at := w.at
	if at == nil {
		at = []int{1, 2, 3}
	}
	pattern := regexp.MustCompile(`(?s)^(` + w.verdicts() + `): ` + regexp.QuoteMeta(keyOf(t, key).String()) + w.says)
	for _, n := range at {
		said, code := c.awaitAnswerOf(t, n, key, pattern)
		if want := exitCodes[said[:strings.Index(said, ":")]]; code != want {
			t.Errorf("why %s at m%d ends with %d; for this it should be %d:\n%s", key, n, code, want, said)
		}
		if w.step != "" {
			says(t, said, w.step)
		}
		if w.todo != "" {
			says(t, said, "to do: ", w.todo)
		}
	}
	if w.mend == nil {
		return
	}
	w.mend(t, c, key)
	if w.gone {
		c.awaitGone(t, at[0], key)
	} else {
		c.awaitReady(t, at[0], key)
	}
}

// object is the name of the cause's pod.
func (w cause) object() string {
	return "why-" + strings.Trim(regexp.MustCompile(`[^a-z]+`).ReplaceAllString(w.name, "-"), "-")
}

func (w cause) verdicts() string {
	if w.verdict == "" {
		return "failed|blocked"
	}
	return w.verdict
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

// exitCodes are those of `peer why`, by its first word.
var exitCodes = map[string]int{"converged": 0, "progressing": 3, "blocked": 4, "failed": 5}

// awaitText asks `peer why` until its answer matches.
func (c *cluster) awaitText(t *testing.T, n int, key string, pattern *regexp.Regexp) string {
	t.Helper()
	said, _ := c.awaitAnswerOf(t, n, key, pattern)
	return said
}

func (c *cluster) awaitAnswerOf(t *testing.T, n int, key string, pattern *regexp.Regexp) (said string, code int) {
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
	return a.out, a.code
}

func TestWhyOfWhatIsWell(t *testing.T) {
	c := need(t)
	c.remove(t, "well")
	c.apply(t, 1, "alice", podSpec{name: "well", args: serve}.String())
	s := c.awaitReady(t, 2, "well")
	says(t, c.must(t, 2, "why", "well"), "converged: pod/well is ready on "+s.status("machine"), "as seen from m2")
	says(t, c.must(t, 1, "why", "machine/m3"), "converged: machine/m3 is ready")
	refuses(t, c.ask(t, 1, "", "why", "nobody"), "pod/nobody does not exist")
	refuses(t, c.ask(t, 1, "", "status", "well@1"), "`peer analyze pod/well@1`", "`peer get pod/well --at 1`")
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
	says(t, c.must(t, 3, "why", "ended"), "converged: pod/ended is completed on", "container app ended with code 3", "peer logs pod/ended -c app", "peer restart pod/ended")
	says(t, c.must(t, 2, "get", "pod/ended"), "ended with 3")
}

// The counter tells how often a container was started again.
func TestRestartsAreCounted(t *testing.T) {
	c := need(t)
	c.remove(t, "counted")
	c.apply(t, 1, "alice", podSpec{name: "counted", args: `[--listen=, --exit-after, 300ms, --exit-code, "1"]`}.String())
	c.await(t, 2, "counted", "restarted twice", func(s seen) bool { return s.number("containers.app.restarts") >= 2 })
	c.awaitText(t, 2, "counted", whyOnly(`^converged: pod/counted is ready on .*; container app has ended by itself and was started again [0-9]+ times, .* ago(?s:.*)peer logs pod/counted -c app --previous`))
	until(t, "logs of the run before", func() bool {
		a := c.ask(t, 2, "", "logs", "counted", "--previous")
		return a.code == 0 && a.out == "hello: exiting with code 1\n"
	})
}
