package api

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Join makes a path of segments. A segment that can't stand as it is (empty, "*",
// or with a dot or a quote) is written as a JSON string, so that Split(Join(s...))
// gives s back, and every path has one spelling.
func Join(segments ...string) string {
	if len(segments) == 1 {
		return escape(segments[0])
	}
	var b strings.Builder
	for i, s := range segments {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(escape(s))
	}
	return b.String()
}

// Child is the path of one member below path; path may be empty.
func Child(path, segment string) string {
	if path == "" {
		return escape(segment)
	}
	return path + "." + escape(segment)
}

func escape(segment string) string {
	if segment != "" && segment != "*" && !strings.ContainsAny(segment, `."`) {
		return segment
	}
	return Str(segment)
}

// Split takes a path apart into its segments, unquoted. A "*" of a pattern comes
// back as "*".
func Split(path string) ([]string, error) {
	if path == "" {
		return nil, fmt.Errorf("the field path is empty")
	}
	var segments []string
	for rest, more := path, true; more; {
		var seg string
		var err error
		if seg, rest, more, err = splitFirst(rest); err != nil {
			return nil, fmt.Errorf("field path %q: %w", path, err)
		}
		segments = append(segments, seg)
	}
	return segments, nil
}

// splitFirst takes one segment off a path and unquotes it.
func splitFirst(path string) (seg, rest string, more bool, err error) {
	raw, rest, more := cut(path)
	if raw == "" {
		return "", "", false, fmt.Errorf("a segment is empty")
	}
	if raw[0] == '"' {
		if err := json.Unmarshal([]byte(raw), &seg); err != nil {
			return "", "", false, fmt.Errorf("the segment %s is not a JSON string", raw)
		}
		return seg, rest, more, nil
	}
	if strings.Contains(raw, `"`) {
		return "", "", false, fmt.Errorf("the segment %s holds a quote; write it as a JSON string", raw)
	}
	return raw, rest, more, nil
}

// cut takes the first segment off a path as it is spelled, quotes included.
func cut(path string) (raw, rest string, more bool) {
	if len(path) == 0 || path[0] != '"' {
		return strings.Cut(path, ".")
	}
	for i := 1; i < len(path); i++ {
		switch path[i] {
		case '\\':
			i++
		case '"':
			tail := path[i+1:]
			if tail == "" {
				return path, "", false
			}
			if tail[0] == '.' {
				return path[:i+1], tail[1:], true
			}
			return path, "", false // not a segment; splitFirst refuses it
		}
	}
	return path, "", false
}

// unescape gives the name that a spelled segment stands for.
func unescape(raw string) string {
	if raw == "" || raw[0] != '"' {
		return raw
	}
	var s string
	if json.Unmarshal([]byte(raw), &s) != nil {
		return raw
	}
	return s
}

// Match reports whether path is exactly what pattern describes, where "*" in the
// pattern stands for one segment.
func Match(pattern, path string) bool {
	rest, ok := match(pattern, path)
	return ok && rest == ""
}

// Covers reports whether path is what pattern describes or lies below it:
// "spec.containers.*" covers "spec.containers.app.image".
func Covers(pattern, path string) bool {
	_, ok := match(pattern, path)
	return ok
}

// match matches a whole pattern against the beginning of a path.
func match(pattern, path string) (rest string, ok bool) {
	morePath := path != ""
	for morePattern := pattern != ""; morePattern; {
		if !morePath {
			return "", false
		}
		var p, s string
		p, pattern, morePattern = cut(pattern)
		s, path, morePath = cut(path)
		if p != "*" && p != s {
			return "", false
		}
	}
	return path, true
}

// Overlap reports whether some path is covered by both patterns: one of them, with
// "*" standing for any segment, is a prefix of the other.
func Overlap(a, b string) bool {
	moreA, moreB := a != "", b != ""
	for moreA && moreB {
		var p, q string
		p, a, moreA = cut(a)
		q, b, moreB = cut(b)
		if p != "*" && q != "*" && p != q {
			return false
		}
	}
	return true
}

// Below reports whether path lies strictly below prefix. Neither is a pattern.
func Below(path, prefix string) bool {
	return len(path) > len(prefix) && path[len(prefix)] == '.' && path[:len(prefix)] == prefix
}
