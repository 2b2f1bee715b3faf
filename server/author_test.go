package server

import (
	"strings"
	"testing"
)

func TestAuthorsNames(t *testing.T) {
	for name, want := range map[string]string{
		"": "user:root", "alice": "user:alice", "A.b_c-9@example": "user:A.b_c-9@example", strings.Repeat("a", 64): "user:" + strings.Repeat("a", 64),
	} {
		if got, err := author(name); err != nil || got != want {
			t.Errorf("%q becomes %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"alice smith", "a/b", "user:bob", "é", "a\n", "\xff", "a\x00", strings.Repeat("a", 65)} {
		if got, err := author(name); err == nil {
			t.Errorf("%q is taken as %q", name, got)
		}
	}
}
