package sim

import (
	"strconv"

	"starling.dev/starling/loops"
)

// fenceSeen is the greatest fencing number that a pod was started with, and where.
type fenceSeen struct {
	number uint64
	at     *host
}

// alone is invariant 7 for leased pods, at each start: no other machine runs the pod, and
// the fencing number grows from holder to holder.
func (c *checker) alone(h *host, in *instance) {
	if !fenced(in) || !in.runs() {
		return
	}
	for _, m := range c.w.machines {
		if other := m.host.pods[in.id]; m.host != h && other != nil && fenced(other) && other.runs() {
			c.w.fail(7, "%s starts the leased pod %s, which still runs on %s", h.m.name, in.name, m.name)
		}
	}
	for _, name := range sortedIDs(in.containers) {
		fence, _ := strconv.ParseUint(in.containers[name].spec.Env[loops.FenceVariable], 10, 64)
		last := c.fences[in.id]
		if last.at != nil && last.at != h {
			c.w.sometimes("a leased pod is taken over")
		}
		if fence < last.number || fence == last.number && last.at != nil && last.at != h {
			c.w.fail(7, "%s starts the leased pod %s with fencing number %d; %s had %d", h.m.name, in.name, fence, last.at.m.name, last.number)
		}
		c.fences[in.id] = fenceSeen{fence, h}
	}
}

// runs reports whether any container of the pod runs.
func (in *instance) runs() bool {
	for _, c := range in.containers {
		if !c.status.Exited {
			return true
		}
	}
	return false
}
