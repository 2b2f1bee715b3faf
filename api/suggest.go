package api

import (
	"fmt"
	"strings"
)

// didYouMean is "; did you mean X?" for the candidate that looks most like word, or
// nothing where none does.
func didYouMean(word string, candidates []string) string {
	if c := nearest(word, candidates); c != "" {
		return fmt.Sprintf("; did you mean %s?", c)
	}
	return ""
}

// Nearest returns the candidate that looks most like the word, or "" where none does.
func Nearest(word string, candidates []string) string { return nearest(word, candidates) }

// nearest returns the first of the candidates that are fewest edits away from word,
// if that is at most a third of its length, and one edit for short words.
func nearest(word string, candidates []string) string {
	best, limit := "", max(1, len(word)/3)+1
	for _, c := range candidates {
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < limit && d < len(c) {
			best, limit = c, d
		}
	}
	return best
}

// distance is the number of insertions, deletions, substitutions and swaps of
// neighbours between two words (optimal string alignment).
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	before, last := make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := range s {
		row := make([]int, len(t)+1)
		row[0] = i + 1
		for j := range t {
			cost := 1
			if s[i] == t[j] {
				cost = 0
			}
			row[j+1] = min(row[j]+1, last[j+1]+1, last[j]+cost)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(t)]
}

// names returns the segments that may follow a path, in the table's order.
func (n *node) names() []string {
	var names []string
	for _, c := range n.children {
		if c.name != "*" && (!n.mixed || c.mixed || c.owner == People) { // beside people's fields, a loop's are no help
			names = append(names, c.name)
		}
	}
	return names
}

// elsewhere finds a path of the table that ends in the segment: whoever writes
// spec.image means spec.containers.*.image.
func (s *schema) elsewhere(segment string) string {
	for i := range s.kind.Fields {
		path := s.kind.Fields[i].Path
		if strings.HasSuffix(path, "."+segment) && !strings.HasPrefix(path, "status.") {
			return path
		}
	}
	return ""
}

// unknownField says that a group has no such member, and which one may be meant.
func (s *schema) unknownField(n *node, segment string) string {
	const text = "there is no such field"
	if hint := didYouMean(segment, n.names()); hint != "" {
		return text + hint
	}
	if path := s.elsewhere(segment); path != "" {
		return text + "; did you mean " + path + "?"
	}
	return text + "; there are " + strings.Join(n.names(), ", ")
}
