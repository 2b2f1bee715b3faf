package peer

import (
	"container/heap"
	"slices"
	"time"
)

// index is a reverse index: topic -> objects.
type index map[string]map[*tracked]struct{}

func (ix index) add(topic string, t *tracked) {
	if topic == "" {
		return
	}
	if ix[topic] == nil {
		ix[topic] = map[*tracked]struct{}{}
	}
	ix[topic][t] = struct{}{}
}

func (ix index) remove(topic string, t *tracked) {
	delete(ix[topic], t)
	if len(ix[topic]) == 0 {
		delete(ix, topic)
	}
}

// sorted returns the objects of a topic in the order of their keys.
func (ix index) sorted(topic string) []*tracked {
	list := make([]*tracked, 0, len(ix[topic]))
	for t := range ix[topic] {
		list = append(list, t)
	}
	sortTracked(list)
	return list
}

func sortTracked(list []*tracked) {
	slices.SortFunc(list, func(a, b *tracked) int { return compareRefs(a.ref, b.ref) })
}

// wakeQueue orders the times at which objects want to be looked at. Times that no
// longer matter are looked at for nothing, which is harmless.
type wakeQueue struct{ h wakeHeap }

type wake struct {
	at int64 // nanoseconds since 1970
	t  *tracked
}

func (q *wakeQueue) add(at time.Time, t *tracked) { heap.Push(&q.h, wake{at.UnixNano(), t}) }

func (q *wakeQueue) next() time.Time {
	if len(q.h) == 0 {
		return time.Time{}
	}
	return time.Unix(0, q.h[0].at).UTC()
}

// due takes everything off that is due.
func (q *wakeQueue) due(now time.Time) []*tracked {
	var list []*tracked
	for len(q.h) > 0 && q.h[0].at <= now.UnixNano() {
		list = append(list, heap.Pop(&q.h).(wake).t)
	}
	return list
}

type wakeHeap []wake

func (h wakeHeap) Len() int { return len(h) }
func (h wakeHeap) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return compareRefs(h[i].t.ref, h[j].t.ref) < 0
}
func (h wakeHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *wakeHeap) Push(x any)   { *h = append(*h, x.(wake)) }
func (h *wakeHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
