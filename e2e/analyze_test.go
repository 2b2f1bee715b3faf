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
