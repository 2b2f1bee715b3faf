package server

import (
	"cmp"
	"context"
	"slices"
	"time"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/api/v1/apiv1connect"
	"starling.dev/starling/oci"
)

// How long processor time is measured for: by default, and at most.
const (
	defaultWindow = time.Second
	maxWindow     = time.Minute
)

// Top measures what the containers of all machines in reach use now. Nothing of it is ever
// written down.
func (s *Server) Top(ctx context.Context, req *apiv1.TopRequest) (*apiv1.TopResponse, error) {
	out := &apiv1.TopResponse{}
	self, others, err := s.around(ctx, &out.View)
	if err != nil {
		return nil, err
	}
	done := others.ask(&out.View.Unreachable, func(c apiv1connect.StarlingClient) (func(), error) {
		theirs, err := c.Top(ctx, req)
		return func() { out.Containers = append(out.Containers, theirs.GetContainers()...) }, err
	})
	here, err := s.measure(ctx, time.Duration(req.GetWindowMs())*time.Millisecond)
	done()
	if err != nil {
		return nil, wire(err)
	}
	for _, u := range here {
		u.Machine = self
	}
	out.Containers = append(out.Containers, here...)
	slices.SortFunc(out.Containers, func(a, b *apiv1.ContainerUsage) int {
		return cmp.Or(keyOf(a.GetKey()).Compare(keyOf(b.GetKey())), cmp.Compare(a.GetContainer(), b.GetContainer()))
	})
	return out, nil
}

// measure reads the counters twice. A container that was restarted between is measured the
// next time.
func (s *Server) measure(ctx context.Context, window time.Duration) ([]*apiv1.ContainerUsage, error) {
	if window <= 0 {
		window = defaultWindow
	}
	began := time.Now()
	before, err := s.cfg.Runtime.Usage(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(min(window, maxWindow)):
	}
	after, err := s.cfg.Runtime.Usage(ctx)
	if err != nil {
		return nil, err
	}
	return rates(before, after, time.Since(began)), nil
}

func rates(before, after []oci.Usage, passed time.Duration) (list []*apiv1.ContainerUsage) {
	type id struct{ pod, container string }
	cpu := map[id]time.Duration{}
	for _, u := range before {
		cpu[id{u.PodID, u.Container}] = u.CPU
	}
	for _, u := range after {
		then, known := cpu[id{u.PodID, u.Container}]
		if !known || u.CPU < then {
			continue
		}
		list = append(list, &apiv1.ContainerUsage{
			Key:       keyTo(api.Key{Kind: "Pod", Namespace: u.Namespace, Name: u.Name}),
			Container: u.Container, Memory: u.Memory, MemoryLimit: u.GivenMemory, CpuLimitMilli: u.GivenCPU,
			CpuMilli: int64(1000 * (u.CPU - then) / passed),
		})
	}
	return list
}
