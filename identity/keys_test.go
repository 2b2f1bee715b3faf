package identity

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"starling.dev/starling/crdt"
)

func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "machine.key")
	if _, err := LoadKey(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("load a missing file: %v", err)
	}
	key, err := LoadOrMakeKey(path, rand.Reader)
	must(t, err)
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v", info.Mode())
	}
	again, err := LoadOrMakeKey(path, rand.Reader)
	must(t, err)
	if !bytes.Equal(key, again) || IDOf(publicOf(key)) != crdt.MachineIDOf(publicOf(again)) {
		t.Fatal("the key did not come back")
	}
	if err := SaveKey(path, testKey("other")); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("overwriting a key file: %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Fatalf("files left behind: %v, %v", left, err)
	}
}

// TestKeyFileRace: all who start at once on a new directory get one key.
func TestKeyFileRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "machine.key")
	keys := make([][]byte, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			key, err := LoadOrMakeKey(path, rand.Reader)
			if err != nil {
				t.Error(err)
			}
			keys[i] = key
		})
	}
	wg.Wait()
	for _, key := range keys {
		if !bytes.Equal(key, keys[0]) {
			t.Fatal("two keys were made")
		}
	}
}

// TestKeyFileRefused: each fault is named with the file and the remedy, and the file is
// left as it is.
func TestKeyFileRefused(t *testing.T) {
	good, err := formatKey(testKey("m1"))
	must(t, err)
	// Of 48 bytes of DER the last 32 are the seed: 64 characters, the last 42 of them.
	seedBit := bytes.Clone(good)
	at := bytes.Index(good, []byte("\n\n")) + 2 + 40
	seedBit[at] = map[bool]byte{true: 'B', false: 'A'}[good[at] == 'A']
	for _, tc := range []struct {
		name string
		text []byte
		mode fs.FileMode
		want string
	}{
		{"readable by others", good, 0o644, "chmod 600"},
		{"writable by the group", good, 0o620, "chmod 600"},
		{"empty", nil, 0o600, "no PEM private key"},
		{"cut short", good[:len(good)/2], 0o600, "no PEM private key"},
		{"another text", []byte("hello"), 0o600, "no PEM private key"},
		{"a flipped bit in the seed", seedBit, 0o600, "does not match the ID"},
		{"another type", []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), 0o600, "damaged"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "machine.key")
			must(t, os.WriteFile(path, tc.text, 0o600))
			must(t, os.Chmod(path, tc.mode))
			_, err := LoadOrMakeKey(path, rand.Reader)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
				t.Fatalf("error %v; want it to name %s and say %q", err, path, tc.want)
			}
			if left, err := os.ReadFile(path); err != nil || !bytes.Equal(left, tc.text) {
				t.Fatalf("the file was changed: %v", err)
			}
		})
	}
	if _, err := LoadKey(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Fatalf("a directory: %v", err)
	}
}
