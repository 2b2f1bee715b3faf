package nft

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/google/nftables/userdata"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Table is a table in a network namespace.
type Table struct {
	Namespace int // an open descriptor of it
	Family    byte
	Name      string
}

// dump sends a request that lists something of the table, and calls got with the
// attributes of each message.
func (t Table) dump(kind int, attrs []*nl.RtAttr, got func(attributes) error) error {
	socket, err := nl.GetNetlinkSocketAt(netns.NsHandle(t.Namespace), netns.None(), unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("open an nftables socket: %w", err)
	}
	defer socket.Close()
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|kind, unix.NLM_F_DUMP)
	req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_NETFILTER: {Socket: socket}}
	req.AddData(&nl.Nfgenmsg{NfgenFamily: t.Family, Version: nl.NFNETLINK_V0})
	for _, a := range attrs {
		req.AddData(a)
	}
	messages, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		return err
	}
	for _, m := range messages {
		if len(m) < nl.SizeofNfgenmsg {
			return fmt.Errorf("a message of %d bytes", len(m))
		}
		a, err := parse(m[nl.SizeofNfgenmsg:])
		if err == nil {
			err = got(a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// attributes are netlink attributes by type, the last of each.
type attributes map[uint16][]byte

func parse(b []byte) (attributes, error) {
	list, err := split(b)
	if err != nil {
		return nil, err
	}
	a := make(attributes, len(list))
	for _, attr := range list {
		a[attr.Attr.Type&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER)] = attr.Value
	}
	return a, nil
}

// errBeyond is an attribute that claims what lies outside of it.
var errBeyond = errors.New("an attribute of nftables ends beyond what it is part of")

// split cuts attributes apart. The library trusts that the last one is padded to a whole
// number of words, and takes padding for content where the attribute says so.
func split(b []byte) ([]syscall.NetlinkRouteAttr, error) {
	size := len(b)
	if rest := size % unix.NLA_ALIGNTO; rest != 0 {
		b = append(slices.Clone(b), make([]byte, unix.NLA_ALIGNTO-rest)...)
	}
	list, err := nl.ParseRouteAttr(b)
	at := 0
	for _, attr := range list {
		if at+int(attr.Attr.Len) > size {
			return nil, errBeyond
		}
		at += (int(attr.Attr.Len) + unix.NLA_ALIGNTO - 1) &^ (unix.NLA_ALIGNTO - 1)
	}
	return list, err
}

func text(b []byte) string { return unix.ByteSliceToString(b) }

// Comments lists the comments of all rules of the table by chain.
func (t Table) Comments() (map[string][]string, error) {
	marks := map[string][]string{}
	table := nl.NewRtAttr(unix.NFTA_RULE_TABLE, nl.ZeroTerminated(t.Name))
	err := t.dump(unix.NFT_MSG_GETRULE, []*nl.RtAttr{table}, func(a attributes) error {
		comment, _ := userdata.GetString(a[unix.NFTA_RULE_USERDATA], userdata.TypeComment)
		chain := text(a[unix.NFTA_RULE_CHAIN])
		marks[chain] = append(marks[chain], comment)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the rules of table %s: %w", t.Name, err)
	}
	return marks, nil
}

// Element is one element of a set or map; a set has no values.
type Element struct{ Key, Value []byte }

// Elements calls got with each element of a set.
func (t Table) Elements(set string, got func(Element)) error {
	attrs := []*nl.RtAttr{
		nl.NewRtAttr(unix.NFTA_SET_ELEM_LIST_TABLE, nl.ZeroTerminated(t.Name)),
		nl.NewRtAttr(unix.NFTA_SET_ELEM_LIST_SET, nl.ZeroTerminated(set)),
	}
	err := t.dump(unix.NFT_MSG_GETSETELEM, attrs, func(a attributes) error {
		list, err := split(a[unix.NFTA_SET_ELEM_LIST_ELEMENTS])
		if err != nil {
			return err
		}
		for _, e := range list {
			read, err := readElement(e.Value)
			if err != nil {
				return err
			}
			got(read)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list set %s of table %s: %w", set, t.Name, err)
	}
	return nil
}

func readElement(b []byte) (Element, error) {
	e, err := parse(b)
	if err != nil {
		return Element{}, err
	}
	key, err := parse(e[unix.NFTA_SET_ELEM_KEY])
	if err != nil {
		return Element{}, err
	}
	value, err := parse(e[unix.NFTA_SET_ELEM_DATA])
	return Element{key[unix.NFTA_DATA_VALUE], value[unix.NFTA_DATA_VALUE]}, err
}
