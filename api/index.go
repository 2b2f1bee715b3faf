package api

import (
	"slices"
	"strings"
)

// index holds the sorted paths of fields, so that the keys of any map are found by
// binary search. Whoever asks for the keys of several maps makes it once.
type index []string

func (f Fields) index() index { return f.Paths() }

// keys returns the keys of the map at prefix, unquoted and sorted; an empty prefix
// stands for the top. All paths of one key are neighbours.
func (x index) keys(prefix string) []string {
	if prefix != "" {
		prefix += "."
	}
	start, _ := slices.BinarySearch(x, prefix)
	var keys []string
	last, quoted := "", false
	for _, path := range x[start:] {
		if !strings.HasPrefix(path, prefix) {
			break
		}
		raw, _, _ := cut(path[len(prefix):])
		if len(keys) > 0 && raw == last {
			continue
		}
		last, quoted = raw, quoted || raw != "" && raw[0] == '"'
		keys = append(keys, unescape(raw))
	}
	if quoted { // a quote sorts otherwise than what it quotes
		slices.Sort(keys)
	}
	return keys
}
