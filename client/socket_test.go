package client

import (
	"io/fs"
	"strings"
	"testing"
)

// Where no peer runs on a machine of a lab, the lab is what to look at.
func TestNoPeerInALab(t *testing.T) {
	for socket, want := range map[string]string{
		LabSocket("mine", 9): "machine 9 of lab mine does not run; `peer lab status --name mine`",
		"/run/peer.sock":     "no peer is running at /run/peer.sock; start one",
	} {
		err := &NoPeerError{Socket: socket, Err: fs.ErrNotExist}
		if got := err.Error(); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", socket, got, want)
		}
	}
}

func TestSelection(t *testing.T) {
	for _, c := range []struct {
		s    Selection
		want string
	}{
		{Selection{}, "/run/starling/peer.sock"},
		{Selection{Env: "/e.sock"}, "/e.sock"},
		{Selection{Socket: "/s.sock", Env: "/e.sock"}, "/s.sock"},
		{Selection{Lab: "2", Env: "/e.sock"}, "/run/starling/lab/lab/2/peer.sock"},
		{Selection{Lab: "mine/12"}, "/run/starling/lab/mine/12/peer.sock"},
	} {
		if got, err := c.s.Path(); got != c.want || err != nil {
			t.Errorf("%+v means %q (%v), want %q", c.s, got, err, c.want)
		}
	}
	for _, bad := range []string{"0", "-1", "x", "mine/", "/2", "../x/2", "a/b/2", "..", "../2"} {
		if got, err := (Selection{Lab: bad}).Path(); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("--lab %s means %q (%v), want a refusal that names it", bad, got, err)
		}
	}
	if _, err := (Selection{Socket: "/s", Lab: "1"}).Path(); err == nil {
		t.Error("a socket and a lab together are taken")
	}
}
