package client

import (
	"strings"
	"testing"
)

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
