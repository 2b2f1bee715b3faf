package linux

import (
	"bytes"
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"

	"starling.dev/starling/netstack"
)

// link finds a link by its name; nil without an error if there is none.
func (s *space) link(name string) (netlink.Link, error) {
	l, err := s.nl.LinkByName(name)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up link %s: %w", name, err)
	}
	return l, nil
}

// links lists all links by index.
func (s *space) links() (map[int]*netlink.LinkAttrs, error) {
	list, err := s.nl.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	byIndex := make(map[int]*netlink.LinkAttrs, len(list))
	for _, l := range list {
		byIndex[l.Attrs().Index] = l.Attrs()
	}
	return byIndex, nil
}

// ensurePair makes the pod's link: one end in this namespace, the other in the pod's.
// A half of a pair, or one that leads elsewhere, is made anew. It returns the two
// ends.
func (s *space) ensurePair(pod *space, host, inside netstack.Link) (ours, theirs netlink.Link, fresh bool, err error) {
	if ours, theirs, err = s.pair(pod, host.Name, inside.Name); err != nil {
		return nil, nil, false, err
	}
	if !joined(ours, theirs) {
		if err := errors.Join(s.deleteLink(ours), pod.deleteLink(theirs)); err != nil {
			return nil, nil, false, err
		}
		if err := s.addPair(pod, host, inside); err != nil {
			return nil, nil, false, err
		}
		fresh = true
		if ours, theirs, err = s.pair(pod, host.Name, inside.Name); err != nil {
			return nil, nil, false, err
		}
		if ours == nil || theirs == nil {
			return nil, nil, false, fmt.Errorf("link %s vanished while it was being set up", host.Name)
		}
	}
	return ours, theirs, fresh, nil
}

func (s *space) pair(pod *space, host, inside string) (ours, theirs netlink.Link, err error) {
	if ours, err = s.link(host); err != nil {
		return nil, nil, err
	}
	theirs, err = pod.link(inside)
	return ours, theirs, err
}

// joined reports whether two links are the ends of one pair. The kernel gives for each
// end the other's index.
func joined(a, b netlink.Link) bool {
	return a != nil && b != nil &&
		a.Attrs().ParentIndex == b.Attrs().Index && b.Attrs().ParentIndex == a.Attrs().Index
}

func (s *space) addPair(pod *space, host, inside netstack.Link) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = host.Name, host.MTU
	veth := netlink.NewVeth(attrs)
	veth.PeerName, veth.PeerMTU = inside.Name, uint32(inside.MTU)
	veth.HardwareAddr, veth.PeerHardwareAddr = host.MAC[:], inside.MAC[:]
	veth.PeerNamespace = netlink.NsFd(pod.fd)
	return s.wrote(s.nl.LinkAdd(veth), host)
}

func (s *space) deleteLink(l netlink.Link) error {
	if l == nil {
		return nil
	}
	err := s.nl.LinkDel(l)
	if err == nil {
		s.writes.Add(1)
		return nil
	}
	if gone, lookup := s.link(l.Attrs().Name); lookup == nil && gone == nil {
		return nil // its other end went first
	}
	return fmt.Errorf("delete link %s: %w", l.Attrs().Name, err)
}

// setLink gives a link the plan's attributes, all but being up.
func (s *space) setLink(have netlink.Link, want netstack.Link) error {
	a := have.Attrs()
	if want.Alias != "" && a.Alias != want.Alias {
		if err := s.wrote(s.nl.LinkSetAlias(have, want.Alias), want); err != nil {
			return err
		}
	}
	if want.MAC != (netstack.MAC{}) && !bytes.Equal(a.HardwareAddr, want.MAC[:]) {
		if err := s.wrote(s.nl.LinkSetHardwareAddr(have, want.MAC[:]), want); err != nil {
			return err
		}
	}
	if want.MTU != 0 && a.MTU != want.MTU {
		return s.wrote(s.nl.LinkSetMTU(have, want.MTU), want)
	}
	return nil
}

func (s *space) setUp(have netlink.Link, want netstack.Link) error {
	if have.Attrs().Flags&net.FlagUp != 0 {
		return nil
	}
	return s.wrote(s.nl.LinkSetUp(have), want)
}
