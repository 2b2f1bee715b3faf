package identity

import (
	"bytes"
	"testing"
)

// The network is part of the cluster's identity, and a cluster with the default has the
// record that it would have without the field.
func TestGenesisNetwork(t *testing.T) {
	w := newWorld()
	must(t, w.begin("m1", PolicyOpen))
	plain := w.logs["m1"].Genesis()
	lan := plain
	lan.Network = "lan"
	for _, g := range []Genesis{plain, lan} {
		read, err := ParseGenesis(g.Bytes())
		if err != nil || read.Network != g.Network || !bytes.Equal(read.Bytes(), g.Bytes()) {
			t.Errorf("network %q was read as %q, %v", g.Network, read.Network, err)
		}
	}
	if plain.ID() == lan.ID() {
		t.Error("clusters of different networks have one ID")
	}
	if _, err := ParseGenesis(append(plain.Bytes(), 0)); err == nil {
		t.Error("a second form of the default was read")
	}
}
