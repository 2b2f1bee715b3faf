package identity

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
)

// MaxClockSkew is how far a newcomer's clock may be from its sponsor's.
const MaxClockSkew = 5 * time.Minute

// Redemption is one newcomer's request as its sponsor sees it.
type Redemption struct {
	Request JoinRequest
	// PeerKey and Binding are what the connection proved, see [PeerKey] and
	// [ChannelBinding].
	PeerKey ed25519.PublicKey
	Binding [32]byte
	Now     time.Time
	// Replace is set where the machine that the newcomer wants to replace was found
	// silent; nil refuses a replacement.
	Replace *Replacement
}

// Replacement is how much of the replaced machine's logs still counts: the heads
// known here of its actors.
type Replacement struct{ Cut crdt.Heads }

// Redeem admits a newcomer in the name of the sponsor, whose key it is given. The
// records that it returns are in the log; persist them before the newcomer hears of
// them. That a token is good for one machine is decided here alone, which is why only
// the sponsor redeems. A newcomer that asks again because the answer was lost is
// admitted already: no records, no error. Errors are a *Refusal or *api.Error with one of
// the codes in errors.go.
func (l *Log) Redeem(sponsor ed25519.PrivateKey, r Redemption) ([]Record, error) {
	if err := r.validate(l.id); err != nil {
		return nil, err
	}
	grant, err := l.redeemable(IDOf(publicOf(sponsor)), r)
	if err != nil {
		return nil, err
	}
	s := l.Snapshot()
	if m, ok := s.ByKey(r.Request.PublicKey); ok && m.Removed {
		return nil, api.Errorf(api.MachineRemoved, "this machine was removed from the cluster as %q; run `peer leave --purge` on it to get a new key, then join again", m.Name)
	} else if ok {
		return nil, nil
	}
	if err := r.timely(s.judge.nodes[grant].rec.Body.(Grant)); err != nil {
		return nil, err
	}
	body, err := r.body(s, IDOf(publicOf(sponsor)), s.judge.nodes[grant].rec.id)
	if err != nil {
		return nil, err
	}
	rec, err := l.issue(sponsor, ClockAt(r.Now), body)
	if err != nil {
		return nil, fmt.Errorf("admit machine %s: %w", r.Request.Name, err)
	}
	return []Record{rec}, nil
}

// validate checks what depends on the request and its connection only.
func (r Redemption) validate(cluster ClusterID) error {
	if !bytes.Equal(r.Request.PublicKey, r.PeerKey) {
		return api.Errorf(api.Invalid, "the request is for another key than the connection's")
	}
	if err := CheckName(r.Request.Name); err != nil {
		return err
	}
	if !verifyProof(cluster, r.Request.TokenKey, r.admit(crdt.ID{})) {
		return api.Errorf(api.TokenInvalid, "the token does not prove this request; copy the whole join line again from `peer invite`")
	}
	return nil
}

func (r Redemption) admit(grant crdt.ID) Admit {
	return Admit{
		PublicKey: r.Request.PublicKey,
		Name:      r.Request.Name,
		Grant:     grant,
		Binding:   r.Binding,
		Proof:     r.Request.Proof,
	}
}

// redeemable finds the token's grant and checks that it counts, is this sponsor's, and
// was not used by another.
func (l *Log) redeemable(sponsor crdt.MachineID, r Redemption) (int, error) {
	s := l.Snapshot()
	i, ok := s.judge.grantOf(r.Request.TokenKey)
	if !ok {
		return 0, api.Errorf(api.TokenInvalid, "this cluster knows no such token; if it was just made, go to the machine that made it, else make a new one with `peer invite`")
	}
	if why := s.judge.refuse(i); why != "" {
		return 0, api.Errorf(api.TokenInvalid, "the token's grant does not count: %s; make a new one with `peer invite`", why)
	}
	grant := s.judge.nodes[i].rec.Body.(Grant)
	if grant.Sponsor != sponsor {
		return 0, s.notSponsor(grant.Sponsor)
	}
	for _, use := range s.judge.uses[s.judge.nodes[i].rec.id] {
		a, _ := admission(s.judge.nodes[use].rec.Body)
		if !bytes.Equal(a.PublicKey, r.Request.PublicKey) {
			return 0, api.Errorf(api.TokenUsed, "the token was used by machine %q; make a new one with `peer invite`", a.Name)
		}
	}
	return i, nil
}

func (s *Snapshot) notSponsor(sponsor crdt.MachineID) error {
	m, ok := s.ByID(sponsor)
	if !ok || m.Removed {
		return api.Errorf(api.TokenInvalid, "the token's sponsor is no longer in the cluster; make a new token with `peer invite`")
	}
	return &Refusal{
		Code:    api.NotSponsor,
		Message: fmt.Sprintf("only machine %q can redeem this token; join there, or make a new token here with `peer invite`", m.Name),
		Sponsor: sponsor,
	}
}

// grantOf finds the first grant with a token's key.
func (v *view) grantOf(tokenKey ed25519.PublicKey) (int, bool) {
	best, found := 0, false
	for i, nd := range v.nodes {
		g, ok := nd.rec.Body.(Grant)
		if ok && bytes.Equal(g.TokenKey, tokenKey) && (!found || v.before(i, best) < 0) {
			best, found = i, true
		}
	}
	return best, found
}

// timely judges the token's expiry and the newcomer's clock, by the sponsor's clock.
func (r Redemption) timely(g Grant) error {
	now := r.Now.UnixMilli()
	if late := now - int64(g.ExpiresUnixMillis); late > 0 {
		return api.Errorf(api.TokenExpired, "the token expired %v ago; make a new one with `peer invite`", millis(late))
	}
	skew := int64(r.Request.ClockUnixMillis) - now
	if limit := MaxClockSkew.Milliseconds(); skew > limit || skew < -limit {
		return api.Errorf(api.ClockSkew, "the newcomer's clock is %v off the sponsor's (%v at most); set the clocks, by NTP if possible, and join again", millis(skew), MaxClockSkew)
	}
	return nil
}

func millis(n int64) time.Duration {
	return (time.Duration(n) * time.Millisecond).Round(time.Second)
}

// body is what the sponsor states: an admission, or a replacement.
func (r Redemption) body(s *Snapshot, sponsor crdt.MachineID, grant crdt.ID) (Body, error) {
	name := r.Request.Name
	holder, taken := s.ByName(name)
	switch {
	case !taken && r.Request.Replace && !s.remembers(name):
		return nil, api.Errorf(api.NotFound, "there is no machine %q to replace; join without --replace", name)
	case !taken:
		return r.admit(grant), nil
	case !r.Request.Replace:
		return nil, api.Errorf(api.NameTaken, "the name %q belongs to another machine (%s); choose another with --name, or take a dead machine's place with --replace %s", name, holder.ID, name)
	case holder.ID == sponsor || r.Replace == nil:
		return nil, api.Errorf(api.NameTaken, "machine %q is not dead, it was heard of just now; only a silent machine can be replaced", name)
	}
	return Replace{
		Admit:  r.admit(grant),
		Remove: Remove{Machine: holder.ID, Reason: "replaced", Cut: r.Replace.Cut},
	}, nil
}

// remembers reports whether a removed machine once held a name.
func (s *Snapshot) remembers(name string) bool {
	for _, m := range s.machines {
		if m.Removed && m.Claimed == name {
			return true
		}
	}
	return false
}
