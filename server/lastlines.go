package server

import (
	"context"
	"time"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/oci"
	"starling.dev/starling/peer"
)

// linesWithin is how long a pod's machine has to come up with what its containers wrote: a
// status is worth more than its last lines.
const linesWithin = 2 * time.Second

// maxLines bounds how many are asked for.
const maxLines = 100

// lastLines is what a pod's containers wrote last, asked of its machine. There is nothing of
// what is no pod, has no machine, or can't be reached: who wants to know why asks for logs.
func (s *Server) lastLines(ctx context.Context, req *apiv1.StatusRequest) (lines []string) {
	ctx, cancel := context.WithTimeout(ctx, linesWithin)
	defer cancel()
	key := keyOf(req.GetKey())
	var containers []string
	if err := s.read(ctx, func(c *peer.Core) *api.Error {
		if seen, ok := c.See(key); ok && key.Kind == "Pod" {
			containers = seen.Object.Fields.Keys("spec.containers")
		}
		return nil
	}); err != nil || len(containers) == 0 {
		return nil
	}
	p, err := s.locate(ctx, key, anyContainer)
	switch {
	case err != nil:
		return nil
	case p.other != nil:
		theirs, err := p.other.Status(ctx, req)
		if err != nil {
			return nil
		}
		return theirs.GetLastLines()
	}
	for _, name := range containers {
		shown := ""
		if len(containers) > 1 {
			shown = name + ": "
		}
		o := oci.LogOptions{Tail: int(min(req.GetLines(), maxLines))}
		err := s.cfg.Runtime.Logs(ctx, p.id, name, o, func(l oci.LogLine) error {
			lines = append(lines, shown+l.Text)
			return nil
		})
		if err != nil {
			continue // it has not begun to write
		}
	}
	return lines
}
