package api

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Authors selects changes by who made them. Patterns are those of path.Match: "user:alice",
// "user:*", "loop:pinned". The zero value selects all.
type Authors struct {
	By, NotBy []string
}

// Any reports whether every author is selected.
func (a Authors) Any() bool { return len(a.By)+len(a.NotBy) == 0 }

// Has reports whether the author is selected: by one of By, if there are any, and by none
// of NotBy.
func (a Authors) Has(author string) bool {
	matches := func(pattern string) bool {
		ok, err := path.Match(pattern, author)
		return err == nil && ok
	}
	return (len(a.By) == 0 || slices.ContainsFunc(a.By, matches)) && !slices.ContainsFunc(a.NotBy, matches)
}

// String says in words who is selected.
func (a Authors) String() string {
	text := "everybody"
	if len(a.By) > 0 {
		text = strings.Join(a.By, ", ")
	}
	if len(a.NotBy) > 0 {
		text += " but " + strings.Join(a.NotBy, ", ")
	}
	return text
}

// Check refuses patterns that match nobody, whoever there is.
func (a Authors) Check() error {
	for _, p := range slices.Concat(a.By, a.NotBy) {
		if err := checkAuthor(p); err != nil {
			return err
		}
	}
	return nil
}

func checkAuthor(p string) error {
	_, err := path.Match(p, "")
	kind, _, whole := strings.Cut(p, ":")
	if err != nil || !strings.Contains(kind, "*") && (!whole || kind != "user" && kind != "loop") {
		return fmt.Errorf("%q is no author: write user:NAME or loop:NAME, with * for any number of characters, as in 'user:*'", p)
	}
	return nil
}
