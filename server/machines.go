package server

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
	"starling.dev/starling/peer"
)

// Machines lists the machines as this peer sees them.
func (s *Server) Machines(ctx context.Context, _ *apiv1.MachinesRequest) (*apiv1.MachinesResponse, error) {
	out := &apiv1.MachinesResponse{}
	return out, s.read(ctx, func(c *peer.Core) *api.Error {
		out.View = view(c)
		out.Cluster = c.Trust().Cluster().String()
		for _, m := range c.Members() {
			out.Machines = append(out.Machines, machineTo(c, m))
		}
		return nil
	})
}

func machineTo(c *peer.Core, m peer.MemberInfo) *apiv1.MachineInfo {
	out := &apiv1.MachineInfo{
		Name: m.Name, Id: m.ID.String(), Alive: m.Alive, Voter: m.Voter, Self: m.ID == c.Self().ID,
		SinceMs: m.Since.UnixMilli(), Connected: m.Connected, Phase: "not ready", Labels: map[string]string{},
		UsedCpuMilli: m.Reserved.CPU, UsedMemory: m.Reserved.Memory, Pods: uint32(m.Pods),
	}
	seen, ok := c.See(api.Key{Kind: "Machine", Name: m.Name})
	if ok {
		describe(out, seen)
	}
	if !m.Alive {
		out.Phase = "silent"
	}
	return out
}

func describe(out *apiv1.MachineInfo, s peer.Seen) {
	status := s.Object.Status()
	out.Address = status.String("status.address")
	out.CpuMilli, out.Memory = status.CPU("status.capacity.cpu"), status.Bytes("status.capacity.memory")
	out.Version, out.Prefix = status.String("status.version"), status.String("status.prefix")
	if status.Bool("status.ready") {
		if out.Phase = s.Eval.Goal; out.Phase == api.TargetDrained {
			out.Phase = phase(s)
		}
	}
	for _, k := range s.Object.Fields.Keys("spec.labels") {
		out.Labels[strings.Trim(k, `"`)] = s.Object.Fields.String("spec.labels." + k)
	}
}

// Invite makes a token that admits one machine, and the line to type there.
func (s *Server) Invite(ctx context.Context, req *apiv1.InviteRequest) (*apiv1.InviteResponse, error) {
	if err := s.locals("inviting a machine"); err != nil {
		return nil, err
	}
	life := time.Duration(req.GetTtlMs()) * time.Millisecond
	if life <= 0 {
		life = time.Hour
	}
	addresses := s.cfg.Addresses()
	var token identity.Token
	err := s.cfg.Loop.Manage(ctx, func(log *identity.Log, now time.Time) (err error) {
		token, _, err = log.Invite(s.cfg.Key, identity.Invitation{
			Sponsor: s.self(), Addresses: addresses, Now: now, Life: life, Note: req.GetNote(),
		}, rand.Reader)
		return err
	})
	if err != nil {
		return nil, wire(err)
	}
	return &apiv1.InviteResponse{
		Token: token.String(), JoinLine: fmt.Sprintf("peer join %s --token %s", addresses[0], token),
		ExpiresMs: time.Now().Add(life).UnixMilli(),
	}, nil
}

func (s *Server) self() crdt.MachineID {
	return identity.IDOf(s.cfg.Key.Public().(ed25519.PublicKey))
}

// RemoveMachine takes a machine's authority away; with self, this machine leaves.
func (s *Server) RemoveMachine(ctx context.Context, req *apiv1.RemoveMachineRequest) (*apiv1.RemoveMachineResponse, error) {
	if err := s.locals("removing a machine"); err != nil {
		return nil, err
	}
	out := &apiv1.RemoveMachineResponse{}
	remove := identity.Remove{Reason: req.GetReason()}
	err := s.read(ctx, func(c *peer.Core) *api.Error {
		out.View = view(c)
		name := req.GetName()
		if req.GetSelf() {
			name = c.Self().Name
		}
		id, ok := c.IDOf(name)
		if !ok {
			return api.Errorf(api.NotFound, "there is no machine %q in this cluster; list them with `peer machine ls`", name)
		}
		remove.Machine = id
		remove.Cut = c.CutOf(id)
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = s.cfg.Loop.Manage(ctx, func(log *identity.Log, now time.Time) error {
		_, err := log.RemoveMachine(s.cfg.Key, identity.ClockAt(now), remove)
		return err
	})
	return out, wire(err)
}

// Doctor looks for what on this machine would keep the cluster from working.
func (s *Server) Doctor(ctx context.Context, _ *apiv1.DoctorRequest) (*apiv1.DoctorResponse, error) {
	out := &apiv1.DoctorResponse{}
	findings, err := s.cfg.Network.Findings(ctx)
	if err != nil {
		return nil, wire(err)
	}
	out.Findings = findings
	return out, s.read(ctx, func(c *peer.Core) *api.Error {
		out.View = view(c)
		return nil
	})
}
