package api

import (
	"strings"
	"testing"
)

func TestAuthorsThatNobodyIs(t *testing.T) {
	if err := (Authors{By: []string{"user:alice", "user:*", "loop:i*"}, NotBy: []string{"*", "*:root", "user:a[bc]"}}).Check(); err != nil {
		t.Error(err)
	}
	for _, p := range []string{"nonsense", "", "alice", "users:alice", "user:["} {
		if (Authors{By: []string{p}}).Check() == nil || (Authors{By: []string{"user:*"}, NotBy: []string{p}}).Check() == nil {
			t.Errorf("%q was taken", p)
		}
	}
}

func TestAuthorsSelect(t *testing.T) {
	for _, c := range []struct {
		a       Authors
		in, out string
	}{
		{Authors{}, "user:alice loop:image", ""},
		{Authors{By: []string{"user:*"}}, "user:alice", "loop:image"},
		{Authors{NotBy: []string{"loop:*"}}, "user:alice", "loop:image"},
		{Authors{By: []string{"user:*", "loop:i*"}, NotBy: []string{"user:bob"}}, "user:alice loop:image", "user:bob loop:probe"},
	} {
		for _, author := range strings.Fields(c.in) {
			if !c.a.Has(author) {
				t.Errorf("%+v leaves %s out", c.a, author)
			}
		}
		for _, author := range strings.Fields(c.out) {
			if c.a.Has(author) {
				t.Errorf("%+v takes %s in", c.a, author)
			}
		}
	}
}
