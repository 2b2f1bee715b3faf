package nft

import (
	"bytes"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// FuzzReadElement: an element of a set as the kernel lists it.
func FuzzReadElement(f *testing.F) {
	e := nl.NewRtAttr(unix.NFTA_LIST_ELEM, nil)
	e.AddRtAttr(unix.NFTA_SET_ELEM_KEY, nl.NewRtAttr(unix.NFTA_DATA_VALUE, []byte{1, 2, 3, 4}).Serialize())
	e.AddRtAttr(unix.NFTA_SET_ELEM_DATA, nl.NewRtAttr(unix.NFTA_DATA_VALUE, []byte{5}).Serialize())
	f.Add(e.Serialize()[unix.SizeofRtAttr:])
	f.Fuzz(func(t *testing.T, b []byte) {
		padded := append(bytes.Clone(b), 0, 0, 0)
		if e, err := readElement(b); err == nil && (!bytes.Contains(padded, e.Key) || !bytes.Contains(padded, e.Value)) {
			t.Fatalf("%x reads as %+v", b, e)
		}
	})
}
