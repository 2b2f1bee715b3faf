package lifecycle

import (
	"crypto/sha256"
	"maps"
	"slices"
	"strings"

	"starling.dev/starling/api"
)

// pattern is a declared path, cut at its dots. It matches every path that it is a
// prefix of, segment by segment; "*" matches any one segment.
type pattern []string

func newPattern(path string) pattern { return strings.Split(path, ".") }

// matches walks the path without cutting it up: evaluation runs for every change.
func (p pattern) matches(path string) bool {
	for _, want := range p {
		if path == "" {
			return false
		}
		segment, rest := nextSegment(path)
		if want != "*" && want != segment {
			return false
		}
		path = rest
	}
	return true
}

// nextSegment cuts the first segment off. A segment that begins with a quote is a
// JSON string and may hold dots.
func nextSegment(path string) (segment, rest string) {
	if path[0] == '"' {
		for i := 1; i < len(path); i++ {
			switch path[i] {
			case '\\':
				i++
			case '"':
				return path[:i+1], strings.TrimPrefix(path[i+1:], ".")
			}
		}
		return path, ""
	}
	segment, rest, _ = strings.Cut(path, ".")
	return segment, rest
}

// overlaps reports whether some path can match both patterns.
func (p pattern) overlaps(o pattern) bool {
	for i := 0; i < len(p) && i < len(o); i++ {
		if p[i] != o[i] && p[i] != "*" && o[i] != "*" {
			return false
		}
	}
	return true
}

// matchAny reports whether one of the patterns matches.
func matchAny(ps []pattern, path string) bool {
	for _, p := range ps {
		if p.matches(path) {
			return true
		}
	}
	return false
}

// selectFields returns what of the object's fields the patterns match: all that a
// step is given.
func selectFields(o *Object, ps []pattern) api.Fields {
	out := api.Fields{}
	if len(ps) == 0 {
		return out
	}
	add := func(fields api.Fields) {
		for path, v := range fields {
			if matchAny(ps, path) {
				out[path] = v
			}
		}
	}
	add(o.Fields)
	for _, r := range o.Results {
		add(r.Outputs)
	}
	return out
}

// hashReads is the hash that a result keeps, and that tells whether it is current.
// The place is part of what a step on a machine reads: elsewhere is a new run.
func hashReads(fields api.Fields, place string) [32]byte {
	h := sha256.New()
	h.Write([]byte(place))
	for _, path := range slices.Sorted(maps.Keys(fields)) {
		h.Write([]byte{0})
		h.Write([]byte(path))
		h.Write([]byte{1})
		h.Write([]byte(fields[path]))
	}
	return [32]byte(h.Sum(nil))
}
