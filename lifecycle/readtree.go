package lifecycle

import "strings"

// readTree finds who reads a path: the declared reads of all steps, segment by
// segment. A pattern covers every path that it is a prefix of; "*" stands for any one
// segment.
type readTree struct {
	here set // the patterns that end here
	kids map[string]*readTree
	any  *readTree
}

func (t *readTree) add(pattern string, reader int) {
	for pattern != "" {
		var segment string
		segment, pattern = nextSegment(pattern)
		t = t.child(segment)
	}
	t.here.add(reader)
}

func (t *readTree) child(segment string) *readTree {
	if segment == "*" {
		if t.any == nil {
			t.any = &readTree{}
		}
		return t.any
	}
	if t.kids == nil {
		t.kids = map[string]*readTree{}
	}
	if t.kids[segment] == nil {
		t.kids[segment] = &readTree{}
	}
	return t.kids[segment]
}

// readers walks the path without cutting it up: evaluation runs for every change.
func (t *readTree) readers(path string) set {
	found := t.here
	if path == "" || (t.kids == nil && t.any == nil) {
		return found
	}
	segment, rest := nextSegment(path)
	if kid, ok := t.kids[segment]; ok {
		found |= kid.readers(rest)
	}
	if t.any != nil {
		found |= t.any.readers(rest)
	}
	return found
}

// nextSegment cuts the first segment off. A segment that begins with a quote is a
// JSON string and may hold dots.
func nextSegment(path string) (segment, rest string) {
	if path[0] != '"' {
		segment, rest, _ = strings.Cut(path, ".")
		return segment, rest
	}
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
