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
	q.heap = append(q.heap, e)
	i := len(q.heap) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !q.heap[i].before(&q.heap[parent]) {
			return
		}
		q.heap[i], q.heap[parent] = q.heap[parent], q.heap[i]
		i = parent
	}
}

// next takes the first event off, if it is due by end.
func (q *queue) next(end time.Duration) (event, bool) {
	if len(q.heap) == 0 || q.heap[0].at > end {
		return event{}, false
	}
	first, n := q.heap[0], len(q.heap)-1
	q.heap[0] = q.heap[n]
	q.heap[n] = event{}
	q.heap = q.heap[:n]
	q.sink()
	return first, true
}

func (q *queue) sink() {
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(q.heap); child++ {
			if q.heap[child].before(&q.heap[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		q.heap[i], q.heap[least] = q.heap[least], q.heap[i]
		i = least
	}
}

func (e *event) before(o *event) bool {
	return e.at < o.at || e.at == o.at && e.order < o.order
}
