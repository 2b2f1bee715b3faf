package server

import "testing"

func TestAuthorsThatNobodyIs(t *testing.T) {
	if fault := checkAuthors("user:alice", "user:*", "loop:i*", "*", "*:root", "user:a[bc]"); fault != nil {
		t.Error(fault)
	}
	for _, p := range []string{"nonsense", "", "alice", "users:alice", "user:["} {
		if checkAuthors("user:*", p) == nil {
			t.Errorf("%q was taken", p)
		}
	}
}
