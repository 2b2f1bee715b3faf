package gossip

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/serf/serf"
)

// ErrNotRunning is returned by what needs a running [Membership].
var ErrNotRunning = errors.New("membership is not running")

// consume takes serf's events into the table until stopped. It never waits for anyone:
// serf holds a lock while it hands an event over.
func (m *Membership) consume(events <-chan serf.Event, stopped <-chan struct{}) {
	for {
		select {
		case e := <-events:
			if me, ok := e.(serf.MemberEvent); ok {
				m.take(me)
			}
		case <-stopped:
			return
		}
	}
}

func (m *Membership) take(e serf.MemberEvent) {
	for _, sm := range e.Members {
		member, err := parseMember(sm.Name, sm.Tags)
		if err != nil {
			m.cfg.Log.Debug("ignore a member that can't be read", "member", sm.Name, "err", err)
			continue
		}
		switch {
		case e.Type == serf.EventMemberReap:
			m.table.reap(member.ID)
		case m.removed(member.ID):
			m.table.forget(member.ID)
		case sm.Status == serf.StatusFailed:
			m.table.report(member, Failed)
		case sm.Status == serf.StatusLeft:
			m.table.report(member, Left)
		default:
			m.table.report(member, Alive)
		}
	}
}

// notify tells the callbacks.
func (m *Membership) notify(ctx context.Context) error {
	for {
		select {
		case <-m.table.wake:
		case <-ctx.Done():
			return nil
		}
		members, rows := m.table.take()
		for _, member := range members {
			m.cfg.Log.Debug("member", "machine", member.Name, "id", member.ID.String(),
				"status", member.Status.String(), "addr", member.Addr.String())
			if m.cfg.OnMember != nil {
				m.cfg.OnMember(member)
			}
		}
		if rows != nil && m.cfg.OnPeers != nil {
			m.cfg.OnPeers(rows)
		}
	}
}

// rejoin joins the cluster through any machine that was ever known, and machines that
// went missing again when they are back, forever.
func (m *Membership) rejoin(ctx context.Context, s *serf.Serf) error {
	t := m.cfg.Timing
	// Machines that boot together spread out, a little.
	if !sleep(ctx, rand.N(t.RejoinMin/4+1)) {
		return nil
	}
	wait, wasAlone := t.RejoinMin, true
	for {
		alone := m.rejoinOnce(ctx, s)
		if alone && !wasAlone {
			wait = t.RejoinMin
		}
		wasAlone = alone
		if !sleep(ctx, jitter(wait)) {
			return nil
		}
		wait = min(2*wait, t.RejoinMax)
	}
}

// rejoinOnce tries everything while this machine is alone, and else at most one missing
// machine, with a probability that makes all machines together try each about once.
func (m *Membership) rejoinOnce(ctx context.Context, s *serf.Serf) (alone bool) {
	rows, alive := m.table.missing()
	rand.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	if alive > 0 {
		if len(rows) > 0 && rand.Float64() < float64(len(rows))/float64(alive) {
			m.tryJoin(s, rowAddress(rows[0]))
		}
		return false
	}
	targets := append([]string(nil), m.cfg.Seeds...)
	for _, k := range rows {
		targets = append(targets, rowAddress(k))
	}
	for _, target := range targets {
		if ctx.Err() != nil || m.tryJoin(s, target) {
			return false
		}
	}
	return len(targets) > 0
}

func (m *Membership) tryJoin(s *serf.Serf, target string) bool {
	if target == m.Addr().String() {
		return false
	}
	_, err := s.Join([]string{target}, true)
	if err != nil {
		m.cfg.Log.Debug("join through", "addr", target, "err", err)
		return false
	}
	m.poke()
	_, alive := m.table.missing()
	return alive > 0
}

// rowAddress writes a row as serf takes it, so that only that machine may answer.
func rowAddress(k Known) string { return k.ID.String() + "/" + k.Addr.String() }

// Join adds a machine to join through, now.
func (m *Membership) Join(addr string) error {
	s, err := m.running()
	if err != nil {
		return err
	}
	if _, err := s.Join([]string{addr}, true); err != nil {
		return fmt.Errorf("join through %s: %w", addr, err)
	}
	m.poke()
	return nil
}

// Leave says goodbye, so that the others see this machine as left, not as silent, and
// waits until the goodbye has spread. The caller then ends Run.
func (m *Membership) Leave(ctx context.Context) error {
	s, err := m.running()
	if err != nil {
		return err
	}
	done := make(chan error, 1) // room for the result of a leave that nobody waits for
	go func() { done <- s.Leave() }()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("leave the cluster: %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("leave the cluster: %w", ctx.Err())
	}
}

// Recheck drops machines that were removed from the cluster meanwhile.
func (m *Membership) Recheck() {
	for _, member := range m.table.list() {
		if m.removed(member.ID) {
			m.table.forget(member.ID)
		}
	}
	for _, k := range m.table.rows() {
		if m.removed(k.ID) {
			m.table.forget(k.ID)
		}
	}
}

// UseKeys rotates the gossip keys: the first is used to send from now on, all are
// accepted. Rotate in two steps, so that nobody is cut off: first spread the new key as
// a second one, then make it the first.
func (m *Membership) UseKeys(keys [][]byte) error {
	if len(keys) == 0 {
		return errors.New("rotate the gossip key: no key given")
	}
	for _, k := range keys {
		if err := m.keyring.AddKey(k); err != nil {
			return fmt.Errorf("rotate the gossip key: %w", err)
		}
	}
	if err := m.keyring.UseKey(keys[0]); err != nil {
		return fmt.Errorf("rotate the gossip key: %w", err)
	}
	for _, old := range m.keyring.GetKeys() {
		if !containsKey(keys, old) {
			if err := m.keyring.RemoveKey(old); err != nil {
				return fmt.Errorf("rotate the gossip key: %w", err)
			}
		}
	}
	return nil
}

func containsKey(keys [][]byte, k []byte) bool {
	for _, key := range keys {
		if string(key) == string(k) {
			return true
		}
	}
	return false
}

// SetLevel tells the others that this machine's level or version changed.
func (m *Membership) SetLevel(level uint32, version string) error {
	if len(version) > maxVersionBytes {
		return fmt.Errorf("set the level: the version must have at most %d bytes", maxVersionBytes)
	}
	s, err := m.running()
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.self.Level, m.self.Version = level, version
	m.mu.Unlock()
	return m.retag(s)
}

func (m *Membership) running() (*serf.Serf, error) {
	select {
	case <-m.finished:
		return nil, ErrNotRunning
	default:
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.serf == nil {
		return nil, ErrNotRunning
	}
	return m.serf, nil
}

// followAddress looks at the own address now and then, and when something suggests it,
// and tells the others when it changed.
func (m *Membership) followAddress(ctx context.Context, s *serf.Serf) error {
	for {
		again := time.NewTimer(m.cfg.Timing.AddressRecheck)
		select {
		case <-m.readdr:
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return nil
		}
		again.Stop()
		if _, err := m.addr.choose(m.targets(ctx)); err != nil {
			m.cfg.Log.Debug("keep the advertised address", "err", err)
		}
		if m.addr.current() == m.Addr().Addr() {
			continue
		}
		m.mu.Lock()
		old := m.where
		m.where = netip.AddrPortFrom(m.addr.current(), m.port)
		now := m.where
		m.mu.Unlock()
		m.cfg.Log.Info("the advertised address changed", "from", old.String(), "to", now.String())
		if err := m.retag(s); err != nil {
			m.cfg.Log.Debug("tell the others", "err", err)
		}
	}
}

func (m *Membership) retag(s *serf.Serf) error {
	m.tagging.Lock()
	defer m.tagging.Unlock()
	m.mu.Lock()
	tags := m.self.tags(m.where)
	m.mu.Unlock()
	if err := s.SetTags(tags); err != nil {
		return fmt.Errorf("spread this machine's tags: %w", err)
	}
	return nil
}

func (m *Membership) reached(local, remote netip.Addr) {
	if m.addr.reached(local, remote) {
		m.poke()
	}
}

// Reached tells the membership that another machine reached this one at a local
// address: it is advertised if nothing better is known. Harmless to call often.
func (m *Membership) Reached(local, remote netip.Addr) { m.reached(local, remote) }

// Readdress has the own address looked at soon: something says that the machine's
// addresses changed. Harmless to call often.
func (m *Membership) Readdress() { m.poke() }

func (m *Membership) poke() { signal(m.readdr) }

// targets lists addresses of other machines, those that are alive first, some at most.
func (m *Membership) targets(ctx context.Context) []netip.Addr {
	const enough = 16
	var list []netip.Addr
	for _, member := range m.table.list() {
		if member.Status == Alive && len(list) < enough {
			list = append(list, member.Addr.Addr())
		}
	}
	if len(list) > 0 {
		return list
	}
	for _, seed := range m.cfg.Seeds {
		list = append(list, resolveHost(ctx, seed)...)
	}
	for _, k := range m.table.rows() {
		if len(list) < enough {
			list = append(list, k.Addr.Addr())
		}
	}
	return list
}

func resolveHost(ctx context.Context, hostport string) []netip.Addr {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs
}

// jitter spreads a duration over 75% to 125% of itself.
func jitter(d time.Duration) time.Duration { return d*3/4 + rand.N(d/2+1) }

// sleep waits; it reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
