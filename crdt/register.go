package crdt

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"
)

// stepResult is a step's winning register as the fold keeps it: encoded, since there
// are many and few are read.
type stepResult struct {
	step    string
	body    string
	stamp   uint64
	change  ID
	refused string // the winner was not permitted: the register is absent
}

func (g stepResult) register() *Register { return (&reader{rest: g.body}).register() }

// key reads what decides between two results, without decoding the rest.
func (g stepResult) key() (attempt uint64, executor MachineID) {
	r := &reader{rest: g.body}
	attempt = r.uvarint(maxAttempt, "attempt")
	r.byte("phase")
	r.id("hash of the reads")
	return attempt, r.machine("executor")
}

// compareResults is the rule of [Register]. It is a total order, so that the
// merge of any number of results is their maximum.
func compareResults(object ID, a, b stepResult) int {
	attemptA, executorA := a.key()
	attemptB, executorB := b.key()
	if c := cmp.Compare(attemptA, attemptB); c != 0 {
		return c
	}
	if executorA != executorB {
		ha, hb := precedence(object, executorA), precedence(object, executorB)
		return bytes.Compare(ha[:], hb[:])
	}
	if c := cmp.Compare(a.stamp, b.stamp); c != 0 {
		return c
	}
	return bytes.Compare(a.change[:], b.change[:])
}

// precedence decides between two executors of one attempt, differently for each
// object.
func precedence(object ID, executor MachineID) ID {
	return sha256.Sum256(append(object[:], executor[:]...))
}

func (o *Object) result(step string) (int, bool) {
	return slices.BinarySearchFunc(o.results, step, func(g stepResult, step string) int { return strings.Compare(g.step, step) })
}

// withResult returns the object with g merged in, and whether that changed it. Of
// the results for one step in one change the greatest counts as well.
func (o *Object) withResult(g stepResult) (*Object, Outcome) {
	i, found := o.result(g.step)
	if found {
		if c := compareResults(o.id, g, o.results[i]); c < 0 {
			return o, Superseded
		} else if c == 0 && g.body <= o.results[i].body {
			return o, Repeated
		}
	}
	next := *o
	next.results = make([]stepResult, 0, len(o.results)+1)
	next.results = append(append(next.results, o.results[:i]...), g)
	if found {
		i++
	}
	next.results = append(next.results, o.results[i:]...)
	return &next, Took
}
