package peer

import "starling.dev/starling/crdt"

// serveBytes bounds what is read from disk for one message, ServeLimit what one Pull
// is answered with: half of what waits for a machine at most, or the end of the answer,
// which has the machine ask on, would be dropped.
const (
	serveBytes = 1 << 20
	ServeLimit = 4 << 20
)

// serve sends ranges of the log, as far as one answer goes.
func (d *driver) serve(s Serve) {
	a := answering{d: d, s: s}
	for _, r := range s.Ranges {
		for r.From <= r.To && a.total < ServeLimit {
			last, err := a.read(r)
			if err != nil {
				d.l.cfg.Logger.Warn("can't read the log", "actor", r.Actor, "from", r.From, "error", err)
			}
			if last < r.From {
				break
			}
			r.From = last + 1
		}
	}
	if len(a.batches) > 0 {
		a.send(true)
	}
}

// answering gathers what one Pull is answered with into messages.
type answering struct {
	d       *driver
	s       Serve
	batches [][]byte
	size    int // of batches
	total   int
}

// read takes the next batches of a range, and returns the last entry that they hold; 0 if
// there are none.
func (a *answering) read(r crdt.Range) (last uint64, err error) {
	got, err := a.d.disk.ReadRange(r, serveBytes)
	if err != nil {
		return 0, err
	}
	for _, raw := range got {
		if a.size+len(raw) > serveBytes {
			a.send(false)
		}
		a.batches, a.size, a.total = append(a.batches, raw), a.size+len(raw), a.total+len(raw)
	}
	if len(got) == 0 {
		return 0, nil
	}
	b, err := crdt.DecodeBatch(got[len(got)-1])
	return b.Last(), err
}

func (a *answering) send(last bool) {
	if len(a.batches) > 0 {
		a.d.send(Envelope{a.s.To, Push{Batches: a.batches, Fresh: a.s.Fresh, Last: last}})
		a.batches, a.size = nil, 0
	}
}
