package clat

import (
	"sync"
	"sync/atomic"
	"time"

	"starling.dev/starling/netstack/xlat"
)

// counters count what did not get through. Measurements: they are asked for live.
type counters struct {
	dropped   [xlat.Reasons]atomic.Uint64 // by reason
	malformed atomic.Uint64               // no packet, or offloads that make no sense
	spoofed   atomic.Uint64               // from an address that is not the sender's
	unsent    atomic.Uint64               // the kernel did not take it
	limited   atomic.Uint64               // ICMP errors beyond the rate
}

// drop counts a packet that a translator has dropped. A fragment that waits for others
// is not lost.
func (c *counters) drop(r xlat.Result) {
	if r.Verdict == xlat.Dropped {
		c.dropped[r.Reason].Add(1)
	}
}

// Lost returns how many packets did not get through since the start, by reason; reasons
// that never occurred are left out.
func (d *Device) Lost() map[string]uint64 {
	lost := make(map[string]uint64)
	for i := range d.counts.dropped {
		if n := d.counts.dropped[i].Load(); n > 0 {
			lost[xlat.Reason(i).String()] = n
		}
	}
	for name, c := range map[string]*atomic.Uint64{
		"bad-offload": &d.counts.malformed, "spoofed": &d.counts.spoofed, "not-sent": &d.counts.unsent, "error-rate": &d.counts.limited,
	} {
		if n := c.Load(); n > 0 {
			lost[name] = n
		}
	}
	return lost
}

// The rate of ICMP errors that we send of our own accord (RFC 4443, section 2.4).
const (
	errorsPerSecond = 100
	errorBurst      = 50
)

// limiter is a token bucket.
type limiter struct {
	now func() time.Time

	mu     sync.Mutex
	tokens float64
	at     time.Time
}

func newLimiter(now func() time.Time) *limiter {
	return &limiter{now: now, tokens: errorBurst, at: now()}
}

// allow takes a token, if there is one.
func (l *limiter) allow() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.tokens = min(errorBurst, l.tokens+now.Sub(l.at).Seconds()*errorsPerSecond)
	l.at = now
	if l.tokens < 1 {
		return false
	}
	l.tokens--
	return true
}
