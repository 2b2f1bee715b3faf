package e2e

import (
	"regexp"
	"strings"
	"testing"
)

// Where time goes over the cluster, who writes most, and the same for Prometheus.
func TestAnalyzeTheCluster(t *testing.T) {
	c := need(t)
	c.remove(t, "timed", "churner")
	c.apply(t, 1, "alice", set(podSpec{name: "timed", args: serve}, podSpec{name: "churner", args: `[--listen=, --exit-after, 0s, --exit-code, "1"]`}))
	c.awaitReady(t, 2, "timed")
	c.await(t, 2, "churner", "failing", func(s seen) bool { return s.GetObject().GetVerdict() == "failed" })
	for n := 1; n <= machines; n++ {
		steps := c.must(t, n, "analyze")
		if !regexp.MustCompile(`(?m)^Pod +container +\d+ +\d+ .* on m\d$`).MatchString(steps) {
			t.Errorf("m%d does not tell how long containers take:\n%s", n, steps)
		}
		says(t, steps, "WORKED p50", "p99", "the long pole is")
		says(t, c.must(t, n, "analyze", "--churn", "--since", "1h"), "LOOP", "container", "wrote most")
		text := c.must(t, n, "metrics")
		line := regexp.MustCompile(`^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.e+-]+)$`)
		for l := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
			if !line.MatchString(l) {
				t.Errorf("m%d: no line of Prometheus' text format: %q", n, l)
			}
		}
		for _, want := range []string{
			`starling_machine_up{machine="m3"} 1`, `starling_objects{kind="Pod",verdict="failed"} `,
			`starling_step_worked_seconds{kind="Pod",step="container",quantile="0.99"} `, `starling_loop_latest_entries{loop="container"} `, "starling_log_entries_total ",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("m%d: the metrics lack %s", n, want)
			}
		}
	}
	refuses(t, c.ask(t, 1, "", "analyze", "timed", "--churn"), "for the whole cluster")
}

// An earlier run is looked at from any machine: a rev's run ends where the next rev begins,
// and one that ran nothing says so.
func TestAnalyzeAnEarlierRun(t *testing.T) {
	c := need(t)
	c.remove(t, "runs")
	pod := podSpec{name: "runs", args: serve}
	c.apply(t, 1, "alice", pod.String())
	c.awaitReady(t, 1, "runs")
	pod.args = `[--listen, "[::]:8081"]`
	c.apply(t, 2, "bob", pod.String())
	c.awaitRev(t, 2, "runs", "2")
	c.awaitReady(t, 2, "runs")
	pod.more = "  labels: {tier: front}\n"
	c.apply(t, 3, "carol", pod.String())
	c.awaitRev(t, 3, "runs", "3")
	for n := 1; n <= machines; n++ {
		c.awaitRev(t, n, "runs", "3")
		first, second := c.must(t, n, "analyze", "runs@1"), c.must(t, n, "analyze", "runs@2")
		says(t, first, "schedule *", "container *", "the long pole is")
		says(t, second, "container *", "the long pole is container")
		if strings.Contains(second, "schedule") {
			t.Errorf("m%d: an edit of arguments placed the pod again:\n%s", n, second)
		}
		says(t, c.must(t, n, "analyze", "runs@3"), "no step of pod/runs ran for rev 3")
	}
	says(t, c.must(t, 1, "analyze", "runs@1", "--plot"), "<svg ", "schedule worked")
	says(t, c.must(t, 1, "analyze", "--plot"), "<svg ", "Pod container worked")
	says(t, c.must(t, 1, "analyze", "--dot"), `"Pod/container" -> "Pod/image"`)
	refuses(t, c.ask(t, 1, "", "analyze", "runs@9"), "there is no rev 9", "the latest is 3")
	refuses(t, c.ask(t, 1, "", "analyze", "runs@2001-01-01T00:00:00Z"), "did not exist")
}
