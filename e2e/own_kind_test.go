package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// buildLoop builds an example's loop.
func (c *cluster) buildLoop(t *testing.T, name string) string {
	t.Helper()
	program := filepath.Join(c.dir, name)
	build := exec.Command("go", "build", "-o", program, "../examples/loops/"+name)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if printed, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the loop: %v\n%s", err, printed)
	}
	return program
}

// A kind of people's own goes through everything that a built-in one does, with a loop in
// Go, and the same in Python without a library.
func TestOwnKind(t *testing.T) {
	c := need(t)
	program := c.buildLoop(t, "website")
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("python3 is missing; the loop in Python is an example that people will run")
	}
	for name, argv := range map[string][]string{"go": {program}, "python": {python, "../examples/loops/website-python/website.py"}} {
		t.Run(name, func(t *testing.T) { c.testWebsite(t, argv) })
	}
}

const site = "website/front"

func website(spec string) string { return "kind: Website\nname: front\nspec: {" + spec + "}\n" }

func (c *cluster) testWebsite(t *testing.T, argv []string) {
	c.remove(t, site, "kind/website")
	says(t, c.ask(t, 1, "", "plan", "-f", "../examples/loops/website").out, "kind/website: created", "there are no websites yet", "run", "website:serve")
	c.must(t, 1, "apply", "-f", "../examples/loops/website")
	c.awaitText(t, 2, site, whyOnly(`blocked: website/front: website:serve: foreign loop website is not attached on m\d`))
	c.attachLoop(t, argv...)
	first := c.awaitReady(t, 3, site)
	says(t, c.must(t, 2, "get", "websites"), "OBJECT", "PODS", "READY", site, "ready", "2", "2")
	c.sayGreeting(t, first, "good morning")

	refuses(t, c.ask(t, 1, website("greeting: HELLO!, pods: 11"), "apply", "-f", "-"),
		"spec.greeting: a website does not shout", "^", "spec.pods: a website has 0 to 10 pods", "^")
	refuses(t, c.ask(t, 1, website("greetng: hello"), "apply", "-f", "-"), "did you mean greeting?")
	refuses(t, c.ask(t, 1, "", "delete", "kind/website"), "still has 1 object (website/front)")

	c.apply(t, 2, "alice", website("greeting: good evening, pods: 2"))
	second := c.awaitRev(t, 3, site, "2")
	c.sayGreeting(t, second, "good evening")
	if fmt.Sprint(c.podsOf(t)) == "[]" {
		t.Fatal("the website has no pods")
	}
	refuses(t, c.ask(t, 1, "", "delete", c.podsOf(t)[0]), "belongs to website/front")
	c.must(t, 3, "rollback", site)
	c.sayGreeting(t, c.awaitRev(t, 1, site, "3"), "good morning")
	says(t, c.must(t, 1, "history", site), "3 *", "user:alice", "user:")
	c.must(t, 1, "switch", site, "stopped")
	until(t, "no pods", func() bool { return len(c.podsOf(t)) == 0 })
	c.must(t, 1, "switch", site, "ready")
	c.awaitReady(t, 1, site)
	c.must(t, 1, "delete", site)
	c.awaitGone(t, 2, site)
}

// podsOf lists the pods of the website by their names.
func (c *cluster) podsOf(t *testing.T) []string {
	t.Helper()
	var own []string
	for _, name := range strings.Fields(c.must(t, 1, "get", "pods", "-o", "name")) {
		if strings.HasPrefix(name, "pod/front-") {
			own = append(own, name)
		}
	}
	return own
}

// sayGreeting asks each pod that the website names.
func (c *cluster) sayGreeting(t *testing.T, s seen, want string) {
	t.Helper()
	pods := c.podsOf(t)
	if len(pods) != 2 || s.number("loops.website.ready") != 2 {
		t.Fatalf("the pods are %v, of which %d serve", pods, s.number("loops.website.ready"))
	}
	for _, pod := range pods {
		says(t, c.must(t, 2, "exec", pod, "--", "/bin/hello", "--get", "http://[::1]:8080/"), want)
	}
}

// The number of pods is handed over to the example's autoscaler, and back.
func TestAutoscaler(t *testing.T) {
	c := need(t)
	queue := t.TempDir()
	const key = "pinneddeployment/workers"
	c.remove(t, key, "step/autoscaler-measure")
	spec := func(scaling string) string {
		return fmt.Sprintf("kind: PinnedDeployment\nname: workers\nspec:\n  replicas: 1\n%s  next: {containers: {app: {image: localhost/hello:1, args: [--listen, \"[::]:8080\"]}}}\n", scaling)
	}
	c.attachLoop(t, c.buildLoop(t, "autoscaler"), "--queue", queue, "--every", "1s")
	c.apply(t, 1, "alice", spec("  scaling: autoscaler\n"))
	counts := func(want int64) {
		t.Helper()
		c.await(t, 2, key, fmt.Sprintf("%d pods", want), func(s seen) bool { return s.ready() && s.number("replicas") == want && s.number("ready") == want })
	}
	counts(1)
	for i := range 25 {
		if err := os.WriteFile(filepath.Join(queue, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	counts(3)
	c.apply(t, 2, "alice", spec(""))
	counts(1)
}
