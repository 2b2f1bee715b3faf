package oci

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCredentialsOfAuthFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "auth.json")
	f := authFile(path)
	if user, secret, err := f.credentials("any.example"); user+secret != "" || err != nil {
		t.Errorf("without a file: %q, %q, %v", user, secret, err)
	}
	if said := f.advice("any.example"); said != "it needs credentials, and "+path+" has none for it" {
		t.Errorf("advice: %s", said)
	}
	const content = `{"auths": {
		"registry.example": {"auth": "YWxpY2U6b3BlbjpzZXNhbWU="},
		"https://other.example": {"username": "bob", "password": "secret"},
		"https://index.docker.io/v1/": {"auth": "Y2Fyb2w6eA=="},
		"broken.example": {"auth": "%"}}}`
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string][2]string{
		"registry.example": {"alice", "open:sesame"}, "other.example": {"bob", "secret"},
		"registry-1.docker.io": {"carol", "x"}, "unknown.example": {},
	} {
		if user, secret, err := f.credentials(host); err != nil || user != want[0] || secret != want[1] {
			t.Errorf("%s: %q, %q, %v; want %q", host, user, secret, err, want)
		}
	}
	if _, _, err := f.credentials("broken.example"); err == nil || !strings.Contains(err.Error(), "USER:PASSWORD") {
		t.Errorf("a broken entry: %v", err)
	}
	if err := os.WriteFile(path, []byte("no JSON"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.credentials("registry.example"); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a broken file: %v", err)
	}
}
