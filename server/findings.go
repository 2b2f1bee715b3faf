package server

import (
	"context"
	"fmt"
	"strings"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/peer"
)

// beside tells what is wrong around an object and holds none of its steps up: on its machine,
// something that drops what it sends (a firewall, a setting); of a machine, its tunnels as well.
func (s *Server) beside(ctx context.Context, key api.Key) []*apiv1.Fault {
	if s.member || (key.Kind != "Machine" && key.Kind != "Pod") {
		return nil
	}
	faults := s.findingsAround(ctx, key)
	if key.Kind == "Machine" {
		faults = append(faults, s.tunnelFaults(ctx, key.Name)...)
	}
	return faults
}

// findingsAround asks the object's machine, if it is in reach, what its doctor finds.
func (s *Server) findingsAround(ctx context.Context, key api.Key) (faults []*apiv1.Fault) {
	ctx, cancel := context.WithTimeout(ctx, sideTimeout)
	defer cancel()
	machine := ""
	err := s.read(ctx, func(c *peer.Core) *api.Error {
		if seen, ok := c.See(key); ok && inReach(c, machineOf(seen)) {
			machine = machineOf(seen)
		}
		return nil
	})
	if err != nil || machine == "" {
		return nil // what is wrong there, the answer itself says
	}
	found, err := s.doctorOf(ctx, machine)
	if err != nil {
		return []*apiv1.Fault{{Sentence: fmt.Sprintf("what the doctor of %s finds is not known: %s", machine, messageOf(err))}}
	}
	for _, f := range found.GetFindings() {
		faults = append(faults, &apiv1.Fault{
			Sentence: fmt.Sprintf("%s on %s: %s", f.GetWhat(), machine, f.GetRule()),
			Fix:      fmt.Sprintf("On %s, %s.", machine, f.GetRemedy()),
		})
	}
	return faults
}

// conflictFaults are what people disagree about, which holds nothing up: one of the values
// counts.
func conflictFaults(key api.Key, conflicts []*apiv1.Conflict) (faults []*apiv1.Fault) {
	for _, c := range conflicts {
		fix := fmt.Sprintf("State the value that is meant, with `peer edit %s` or `peer apply`, also if it is the one that counts now.", key)
		if c.GetPath() == "name" {
			fix = "" // which the claim tells
		}
		faults = append(faults, &apiv1.Fault{Sentence: fmt.Sprintf("conflict in %s: %s", c.GetPath(), strings.Join(c.GetClaims(), ", ")), Fix: fix})
	}
	return faults
}

func inReach(c *peer.Core, machine string) bool {
	if machine == c.Self().Name {
		return true
	}
	for _, m := range c.Members() {
		if m.Name == machine {
			return m.Connected
		}
	}
	return false
}

func (s *Server) doctorOf(ctx context.Context, machine string) (*apiv1.DoctorResponse, error) {
	other, err := s.elsewhere(ctx, machine)
	if err != nil {
		return nil, err
	}
	if other == nil {
		return s.Doctor(ctx, nil)
	}
	return other.Doctor(ctx, &apiv1.DoctorRequest{})
}
