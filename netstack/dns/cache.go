package dns

import (
	"container/list"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// cacheSize is how many answers are kept; the one that was used least recently goes.
	cacheSize = 4096
	// cacheTTL bounds how long one is kept, in seconds.
	cacheTTL = 300
)

// cache keeps answers of upstream for as long as their records live.
type cache struct {
	now func() time.Time

	mu      sync.Mutex // guards what follows
	entries map[cacheKey]*list.Element
	order   *list.List // of *cached, the latest used first
}

type cacheKey struct {
	name        string
	kind, class uint16
	do, cd      bool
}

type cached struct {
	key     cacheKey
	answer  *dns.Msg
	since   time.Time
	expires time.Time
}

func newCache(now func() time.Time) *cache {
	return &cache{now: now, entries: map[cacheKey]*list.Element{}, order: list.New()}
}

func keyOf(q *dns.Msg) cacheKey {
	k := cacheKey{name: strings.ToLower(q.Question[0].Name), kind: q.Question[0].Qtype, class: q.Question[0].Qclass, cd: q.CheckingDisabled}
	if opt := q.IsEdns0(); opt != nil {
		k.do = opt.Do()
	}
	return k
}

// get returns the answer to a query with what is left of its lifetime; nil if there is
// none.
func (c *cache) get(q *dns.Msg) *dns.Msg {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[keyOf(q)]
	if !ok {
		return nil
	}
	have := e.Value.(*cached)
	now := c.now()
	if !now.Before(have.expires) {
		c.drop(e)
		return nil
	}
	c.order.MoveToFront(e)
	m := have.answer.Copy()
	m.Id, m.Question = q.Id, q.Question
	age := uint32(now.Sub(have.since) / time.Second)
	for _, rr := range records(m) {
		rr.Header().Ttl -= min(age, rr.Header().Ttl)
	}
	return m
}

func (c *cache) put(q, m *dns.Msg) {
	life := lifetime(m)
	if life == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := keyOf(q)
	if old, ok := c.entries[k]; ok {
		c.drop(old)
	}
	now := c.now()
	c.entries[k] = c.order.PushFront(&cached{k, m.Copy(), now, now.Add(time.Duration(life) * time.Second)})
	if c.order.Len() > cacheSize {
		c.drop(c.order.Back())
	}
}

func (c *cache) drop(e *list.Element) {
	delete(c.entries, e.Value.(*cached).key)
	c.order.Remove(e)
}

// lifetime is the shortest of the records'. Without an SOA nobody says for how long
// there is nothing, so that is not kept (RFC 2308, section 5).
func lifetime(m *dns.Msg) uint32 {
	life := uint32(cacheTTL)
	sure := len(m.Answer) > 0
	for _, rr := range records(m) {
		life = min(life, rr.Header().Ttl)
		if s, ok := rr.(*dns.SOA); ok {
			life = min(life, s.Minttl)
			sure = true
		}
	}
	if !sure {
		return 0
	}
	return life
}

func records(m *dns.Msg) []dns.RR {
	var all []dns.RR
	for _, part := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range part {
			if rr.Header().Rrtype != dns.TypeOPT {
				all = append(all, rr)
			}
		}
	}
	return all
}
