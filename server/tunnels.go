package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/peer"
)

// Tunnels tells how this machine's tunnels are, as it sees them.
func (s *Server) Tunnels(ctx context.Context, _ *apiv1.TunnelsRequest) (*apiv1.TunnelsResponse, error) {
	out, err := s.cfg.Network.Tunnels(ctx)
	return out, wire(err)
}

// How long other machines may take to tell their side, one and all of them, and how many
// are asked at once.
const (
	sideTimeout  = 2 * time.Second
	sidesTimeout = 5 * time.Second
	sidesAtOnce  = 32
)

// tunnelFaults tells what is wrong with a machine's tunnels, and what to do about each;
// nothing if it has none. Both sides of each are asked: the one that can't send is the
// last to notice.
func (s *Server) tunnelFaults(ctx context.Context, machine string) []*apiv1.Fault {
	if !s.hasTunnels(ctx, machine) {
		return nil
	}
	mine, err := s.tunnelsOf(ctx, machine)
	if err != nil {
		return []*apiv1.Fault{{Sentence: fmt.Sprintf("%s can't tell how its tunnels are: %v", machine, err)}}
	}
	ctx, cancel := context.WithTimeout(ctx, sidesTimeout)
	defer cancel()
	faults := make([]*apiv1.Fault, len(mine.GetTunnels()))
	var asked sync.WaitGroup
	turns := make(chan struct{}, sidesAtOnce)
	for i, t := range mine.GetTunnels() {
		asked.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			sentence, fix := judge(sideOf(machine, mine, t), s.otherSide(ctx, t.GetMachine(), machine))
			if sentence != "" {
				faults[i] = &apiv1.Fault{Sentence: sentence, Fix: fix}
			}
		})
	}
	asked.Wait()
	var found []*apiv1.Fault
	for _, f := range faults {
		if f != nil {
			found = append(found, f)
		}
	}
	return found
}

// hasTunnels reports whether the machine is known to have a device.
func (s *Server) hasTunnels(ctx context.Context, machine string) (has bool) {
	err := s.read(ctx, func(c *peer.Core) *api.Error {
		seen, ok := c.See(api.Key{Kind: "Machine", Name: machine})
		has = ok && seen.Object.Status().String("status.wireguard.key") != ""
		return nil
	})
	return has && err == nil
}

func (s *Server) tunnelsOf(ctx context.Context, machine string) (*apiv1.TunnelsResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, sideTimeout)
	defer cancel()
	other, err := s.elsewhere(ctx, machine)
	if err != nil {
		return nil, err
	}
	if other == nil {
		return s.Tunnels(ctx, nil)
	}
	return other.Tunnels(ctx, &apiv1.TunnelsRequest{})
}

// otherSide asks a machine how it sees its tunnel to another.
func (s *Server) otherSide(ctx context.Context, machine, to string) side {
	theirs, err := s.tunnelsOf(ctx, machine)
	if err != nil {
		return side{machine: machine, problem: messageOf(err)}
	}
	for _, t := range theirs.GetTunnels() {
		if t.GetMachine() == to {
			return sideOf(machine, theirs, t)
		}
	}
	return side{machine: machine}
}

// side is what one end of a tunnel says of it.
type side struct {
	machine string
	problem string // why the machine can't tell; empty if it has told
	// has tells whether the machine has the tunnel; the rest is of it.
	has    bool
	port   uint32
	heard  time.Duration // how long ago the other end was heard; negative: never
	lately bool          // and that is recent
}

func sideOf(machine string, all *apiv1.TunnelsResponse, t *apiv1.Tunnel) side {
	return side{
		machine: machine, has: true, port: all.GetPort(), lately: t.GetHeard(),
		heard: time.Duration(t.GetHeardMsAgo()) * time.Millisecond,
	}
}

func (s side) hears() bool { return s.has && s.lately }

// judge tells what is wrong with the tunnel between two machines, and what to do; empty
// if nothing is. It names the side that does not hear the other.
func judge(here, there side) (fault, remedy string) {
	switch {
	case here.problem != "":
		return fmt.Sprintf("%s can't tell how its tunnel to %s is: %s", here.machine, there.machine, here.problem), ""
	case !here.has:
		return fmt.Sprintf("%s has no tunnel to %s yet", here.machine, there.machine), ""
	case here.hears() && (there.problem != "" || there.has && there.hears()):
		return "", ""
	case there.problem != "":
		return fmt.Sprintf("the tunnel between %s and %s fails: %s; %s can't be asked for its side: %s",
			here.machine, there.machine, deaf(here, there), there.machine, there.problem), between(here, there)
	case !there.has:
		return fmt.Sprintf("the tunnel between %s and %s fails on the side of %s, which has no tunnel to %s",
			here.machine, there.machine, there.machine, here.machine), fmt.Sprintf("Look at `peer why machine/%s`.", there.machine)
	case here.hears():
		return fmt.Sprintf("the tunnel between %s and %s fails on the side of %s: %s, although %s hears %s",
			here.machine, there.machine, there.machine, deaf(there, here), here.machine, there.machine), into(there)
	case there.hears():
		return fmt.Sprintf("the tunnel between %s and %s fails on the side of %s: %s, although %s hears %s",
			here.machine, there.machine, here.machine, deaf(here, there), there.machine, here.machine), into(here)
	}
	return fmt.Sprintf("the tunnel between %s and %s fails on both sides: %s, and %s",
		here.machine, there.machine, deaf(here, there), deaf(there, here)), between(here, there)
}

func deaf(who, whom side) string {
	if who.heard < 0 {
		return fmt.Sprintf("%s has never received anything from %s", who.machine, whom.machine)
	}
	return fmt.Sprintf("%s has received nothing from %s for %s", who.machine, whom.machine, who.heard.Round(time.Second))
}

func into(s side) string {
	return fmt.Sprintf("Let UDP to port %d into %s.", s.port, s.machine)
}

func between(a, b side) string {
	if a.port == b.port || b.port == 0 {
		return fmt.Sprintf("Let UDP to port %d pass between %s and %s.", a.port, a.machine, b.machine)
	}
	return fmt.Sprintf("Let UDP pass between port %d of %s and port %d of %s.", a.port, a.machine, b.port, b.machine)
}
