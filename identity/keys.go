package identity

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"starling.dev/starling/crdt"
)

// The private key's PEM block carries the key's own ID. PKCS#8 holds nothing but a
// seed, and every seed is a valid key: without the ID a flipped bit would silently
// make another machine.
const (
	keyBlockType = "PRIVATE KEY"
	keyIDHeader  = "Key-Id"
)

// maxKeyFile bounds what is read from a key file, in bytes.
const maxKeyFile = 4096

// IDOf is the ID of the holder of a key: the first 16 bytes of the SHA-256 of the
// public key. Root keys have IDs of the same form.
func IDOf(pub ed25519.PublicKey) crdt.MachineID {
	return crdt.MachineIDOf(pub)
}

// NewKey makes a key from 32 bytes of rnd.
func NewKey(rnd io.Reader) (ed25519.PrivateKey, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(rnd, seed); err != nil {
		return nil, fmt.Errorf("read random bytes for a key: %w", err)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// LoadOrMakeKey returns the key in the file, or makes the file with a new key.
// The file appears whole or not at all, with mode 0600, and is synced; when two
// processes race, both get the same key.
func LoadOrMakeKey(path string, rnd io.Reader) (ed25519.PrivateKey, error) {
	key, err := LoadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if key, err = NewKey(rnd); err != nil {
		return nil, err
	}
	if err := SaveKey(path, key); errors.Is(err, fs.ErrExist) {
		return LoadKey(path)
	} else if err != nil {
		return nil, err
	}
	return key, nil
}

// LoadKey reads a key file. The error for a missing file is fs.ErrNotExist.
func LoadKey(path string) (ed25519.PrivateKey, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open key file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("inspect key file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("key file %s is not a regular file; move it away", path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("key file %s may be used by others (mode %04o); run: chmod 600 %s", path, mode, path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return nil, fmt.Errorf("read key file: %w", err)
	}
	key, err := parseKey(text)
	if err != nil {
		return nil, fmt.Errorf("key file %s is damaged (%w); restore it from a backup, or move it away to start as a new machine", path, err)
	}
	return key, nil
}

func parseKey(text []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != keyBlockType {
		return nil, errors.New("it holds no PEM private key")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("its key is not an Ed25519 key")
	}
	if keyID(key) != block.Headers[keyIDHeader] {
		return nil, errors.New("its key does not match the ID beside it")
	}
	return key, nil
}

func formatKey(key ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{
		Type:    keyBlockType,
		Headers: map[string]string{keyIDHeader: keyID(key)},
		Bytes:   der,
	}), nil
}

// keyID is the whole hash of the public key in hex.
func keyID(key ed25519.PrivateKey) string {
	sum := sha256.Sum256(publicOf(key))
	return hex.EncodeToString(sum[:])
}

// SaveKey writes a new key file and fails with fs.ErrExist rather than overwrite
// one.
func SaveKey(path string, key ed25519.PrivateKey) error {
	text, err := formatKey(key)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	// os.CreateTemp makes files with mode 0600.
	tmp, err := os.CreateTemp(dir, ".key-*")
	if err != nil {
		return fmt.Errorf("create key file in %s: %w", dir, err)
	}
	defer os.Remove(tmp.Name())
	if err := writeSynced(tmp, text); err != nil {
		return fmt.Errorf("write key file %s: %w", path, err)
	}
	// Unlike a rename, a link never replaces a key that is already there.
	if err := os.Link(tmp.Name(), path); err != nil {
		return fmt.Errorf("put key file in place: %w", err)
	}
	return syncDir(dir)
}

func writeSynced(f *os.File, data []byte) error {
	_, err := f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open %s to sync it: %w", dir, err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

// publicOf is the public half of a key.
func publicOf(key ed25519.PrivateKey) ed25519.PublicKey {
	// The method's result is a crypto.PublicKey that holds this type, by its contract.
	return key.Public().(ed25519.PublicKey)
}
