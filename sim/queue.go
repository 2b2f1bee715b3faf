package sim

import "time"

// event is something that happens at a point of virtual time.
type event struct {
	at    time.Duration
	order uint64 // of two events at one time, the one that was scheduled first is first
	do    func()
	// of, if given, is the machine in whose present life it happens: what an earlier life
	// scheduled is void.
	of   *machine
	life int
}

// queue is a binary heap of events by (at, order).
type queue struct {
	heap []event
	last uint64
}

func (q *queue) add(e event) {
	q.last++
	e.order = q.last
	q.heap = append(q.heap, event{})
	hole := len(q.heap) - 1
	for hole > 0 {
		parent := (hole - 1) / 2
		if !e.before(&q.heap[parent]) {
			break
		}
		q.heap[hole] = q.heap[parent]
		hole = parent
	}
	q.heap[hole] = e
}

// next takes the first event off, if it is due by end.
func (q *queue) next(end time.Duration) (event, bool) {
	if len(q.heap) == 0 || q.heap[0].at > end {
		return event{}, false
	}
	first, n := q.heap[0], len(q.heap)-1
	last := q.heap[n]
	q.heap[n] = event{}
	if q.heap = q.heap[:n]; n > 0 {
		q.fill(last)
	}
	return first, true
}

// fill lets the hole at the top sink to where the event belongs.
func (q *queue) fill(e event) {
	hole, n := 0, len(q.heap)
	for {
		child := 2*hole + 1
		if child >= n {
			break
		}
		if child+1 < n && q.heap[child+1].before(&q.heap[child]) {
			child++
		}
		if !q.heap[child].before(&e) {
			break
		}
		q.heap[hole] = q.heap[child]
		hole = child
	}
	q.heap[hole] = e
}

func (e *event) before(o *event) bool {
	return e.at < o.at || e.at == o.at && e.order < o.order
}
