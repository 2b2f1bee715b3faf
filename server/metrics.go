package server

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/peer"
)

// MetricsPath is where a peer's metrics are on its local socket.
const MetricsPath = "/metrics"

// metrics writes what this peer knows as metrics, in Prometheus' text format 0.0.4. It is
// served on the local socket alone; a node's collector reads it from there.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	var text strings.Builder
	err := s.read(r.Context(), func(c *peer.Core) *api.Error {
		writeMetrics(&text, c)
		return nil
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = io.WriteString(w, text.String()) // a client that went away is no news
}

func writeMetrics(w io.Writer, c *peer.Core) {
	e := exposition{w}
	e.family("starling_objects", "gauge", "Objects by kind and verdict, as this peer sees them.")
	verdicts := c.Verdicts()
	for _, kind := range slices.Sorted(maps.Keys(verdicts)) {
		for _, v := range []lifecycle.State{lifecycle.Converged, lifecycle.Progressing, lifecycle.Blocked, lifecycle.Failed} {
			e.value("starling_objects", float64(verdicts[kind][v]), "kind", kind, "verdict", string(v))
		}
	}
	e.family("starling_machine_up", "gauge", "Whether this peer hears of a machine.")
	for _, m := range c.Members() {
		up := 0.0
		if m.Alive {
			up = 1
		}
		e.value("starling_machine_up", up, "machine", m.Name)
	}
	figures := c.Figures()
	e.family("starling_log_entries_total", "counter", "Entries of all logs that this peer holds.")
	e.value("starling_log_entries_total", float64(figures["entries"]))
	e.family("starling_actions", "gauge", "Steps that this peer is at work on.")
	e.value("starling_actions", float64(figures["actions"]))
	e.family("starling_unreadable_changes_total", "counter", "Changes that this peer did not write, since no other would read them: a fault of the program.")
	e.value("starling_unreadable_changes_total", float64(figures["unreadable"]))
	e.timings(c.Timings(time.Time{}))
	e.churn(c)
}

// exposition writes families of metrics.
type exposition struct{ w io.Writer }

func (e exposition) family(name, kind, help string) {
	fmt.Fprintf(e.w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// value writes one line; labels are names and values in turn.
func (e exposition) value(name string, v float64, labels ...string) {
	var pairs []string
	for i := 0; i+1 < len(labels); i += 2 {
		pairs = append(pairs, fmt.Sprintf(`%s="%s"`, labels[i], labelEscapes.Replace(labels[i+1])))
	}
	if len(pairs) > 0 {
		name += "{" + strings.Join(pairs, ",") + "}"
	}
	fmt.Fprintf(e.w, "%s %g\n", name, v)
}

// timings are of the latest results, so that they are gauges: quantiles of a window, as
// `peer analyze` shows them.
func (e exposition) timings(list []peer.Timing) {
	quantiles := func(name, help string, of func(peer.Timing) peer.Quantiles) {
		e.family(name, "gauge", help)
		for _, t := range list {
			q := of(t)
			e.value(name, q.P50.Seconds(), "kind", t.Kind, "step", t.Step, "quantile", "0.5")
			e.value(name, q.P99.Seconds(), "kind", t.Kind, "step", t.Step, "quantile", "0.99")
		}
	}
	quantiles("starling_step_worked_seconds", "How long the latest attempts at a step took, all over the cluster.", func(t peer.Timing) peer.Quantiles { return t.Worked })
	quantiles("starling_step_waited_seconds", "How long the latest attempts at a step waited for their turn.", func(t peer.Timing) peer.Quantiles { return t.Waited })
	e.family("starling_step_latest_runs", "gauge", "How many of the latest results are of a step, by how it ended.")
	for _, t := range list {
		e.value("starling_step_latest_runs", float64(t.Runs-t.Failures), "kind", t.Kind, "step", t.Step, "result", "done")
		e.value("starling_step_latest_runs", float64(t.Failures), "kind", t.Kind, "step", t.Step, "result", "failed")
	}
}

func (e exposition) churn(c *peer.Core) {
	list, _ := c.Churn(time.Time{})
	e.family("starling_loop_latest_entries", "gauge", "How many of the latest results a loop wrote.")
	for _, l := range list {
		e.value("starling_loop_latest_entries", float64(l.Entries), "loop", l.Loop)
	}
	e.family("starling_loop_held", "gauge", "Objects about which a loop is held back here, its entry budget being spent.")
	for _, l := range list {
		e.value("starling_loop_held", float64(l.Held), "loop", l.Loop)
	}
}
