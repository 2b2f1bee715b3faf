package rig

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"time"

	"starling.dev/starling/crdt"
	"starling.dev/starling/identity"
)

// begun is when every cluster of rigs began.
var begun = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func keyOf(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("bench " + name))
	return ed25519.NewKeyFromSeed(seed[:])
}

// MachineName names the n-th machine, counted from 1.
func MachineName(n int) string { return fmt.Sprintf("m%d", n) }

// MachineID is the identity of a machine.
func MachineID(name string) crdt.MachineID { return identity.IDOf(public(name)) }

func public(name string) ed25519.PublicKey {
	return keyOf(name).Public().(ed25519.PublicKey) //nolint:forcetypeassert // an Ed25519 key
}

// newLog is the authorisation log of a cluster of so many machines: the same bytes,
// whoever computes it.
func newLog(machines int) (*identity.Log, error) {
	root, first := keyOf("root"), MachineName(1)
	random := bytes.NewReader(bytes.Repeat([]byte{7}, 4096))
	log, err := identity.Begin(identity.BeginConfig{
		Name: "bench", MachineName: first, RootKey: root, MachineKey: keyOf(first), Clock: identity.ClockAt(begun),
	}, random)
	if err != nil {
		return nil, fmt.Errorf("begin a cluster: %w", err)
	}
	for n := 2; n <= machines; n++ {
		rec, err := log.Sign(root, identity.ClockAt(begun), identity.Admit{PublicKey: public(MachineName(n)), Name: MachineName(n)})
		if err == nil {
			_, err = log.Add(rec.Bytes())
		}
		if err != nil {
			return nil, fmt.Errorf("admit machine %d: %w", n, err)
		}
	}
	return log, nil
}
