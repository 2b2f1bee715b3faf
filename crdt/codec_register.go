package crdt

import (
	"encoding/binary"
	"slices"
)

// maxTime bounds the Unix milliseconds of a register, so that their differences
// can't overflow.
const maxTime = 1<<48 - 1

const maxAttempt = 1<<62 - 1

// append appends the register's encoding:
//
//	attempt, phase:1, reads:32, executor:16, queued, ready, started, finished,
//	outputs (count, then path and value by ascending path), code, message,
//	failures, retry-at
//
// Times after queued are written as their distance from it, since they are near.
func (g *Register) append(b []byte) []byte {
	b = binary.AppendUvarint(b, g.Attempt)
	b = append(b, byte(g.Phase))
	b = append(b, g.Reads[:]...)
	b = append(b, g.Executor[:]...)
	b = binary.AppendUvarint(b, uint64(g.Queued))
	for _, t := range []int64{g.Ready, g.Started, g.Finished} {
		b = binary.AppendUvarint(b, encodeTime(t, g.Queued))
	}
	b = binary.AppendUvarint(b, uint64(len(g.Outputs)))
	paths := make([]string, 0, 16) // usually they stay on the stack
	for path := range g.Outputs {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		b = appendString(appendString(b, path), g.Outputs[path])
	}
	b = appendString(appendString(b, g.Code), g.Message)
	b = binary.AppendUvarint(b, uint64(g.Failures))
	return binary.AppendUvarint(b, encodeTime(g.RetryAt, g.Queued))
}

// encoded returns the register's encoding as the fold keeps it.
func (g *Register) encoded() string { return string(g.append(make([]byte, 0, 256))) }

func (r *reader) register() *Register {
	g := &Register{
		Attempt:  r.uvarint(maxAttempt, "attempt"),
		Phase:    Phase(r.byte("phase")),
		Reads:    r.id("hash of the reads"),
		Executor: r.machine("executor"),
		Queued:   int64(r.uvarint(maxTime, "time queued")),
	}
	g.Ready = r.time(g.Queued)
	g.Started = r.time(g.Queued)
	g.Finished = r.time(g.Queued)
	g.Outputs = r.outputs()
	g.Code = r.text(MaxName, "code")
	g.Message = r.text(MaxMessage, "message")
	g.Failures = uint32(r.uvarint(1<<32-1, "failures"))
	g.RetryAt = r.time(g.Queued)
	return g
}

func (r *reader) outputs() map[string]string {
	n := int(r.uvarint(MaxOutputs, "outputs"))
	if n == 0 {
		return nil
	}
	outputs := make(map[string]string, min(n, len(r.rest)))
	last := ""
	for i := range n {
		path := r.text(MaxPath, "output path")
		if i > 0 && path <= last {
			r.fail("outputs", "are not sorted")
		}
		if r.err != nil {
			return nil
		}
		last = path
		outputs[path] = r.text(MaxChange, "output value")
	}
	return outputs
}

// encodeTime maps 0 (not yet) to 0 and any other time to 1 + its zigzag distance
// from base.
func encodeTime(t, base int64) uint64 {
	if t == 0 {
		return 0
	}
	d := t - base
	return 1 + (uint64(d)<<1 ^ uint64(d>>63))
}

func (r *reader) time(base int64) int64 {
	u := r.uvarint(2*maxTime+2, "time")
	if u == 0 {
		return 0
	}
	u--
	t := base + int64(u>>1^-(u&1))
	if t <= 0 || t > maxTime {
		r.fail("time", "is beyond its limit")
		return 0
	}
	return t
}
