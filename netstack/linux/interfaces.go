package linux

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"starling.dev/starling/loops"
	"starling.dev/starling/netstack"
)

// findLinks completes a pod's interfaces by what they attach to. Those that can't be attached
// are left out, and named in the error.
func (n *Network) findLinks(wanted []netstack.Interface) (found []netstack.Interface, missing error) {
	var errs []error
	for _, i := range wanted {
		link, err := n.host.link(i.Attach)
		if err != nil {
			return nil, err
		}
		if why := unfit(link, i); why != "" {
			errs = append(errs, &loops.LinkMissing{Interface: i.Name, Link: i.Attach, Why: why})
			continue
		}
		i.Bridge, i.AttachMTU = link.Type() == "bridge", link.Attrs().MTU
		found = append(found, i)
	}
	return found, errors.Join(errs...)
}

// noteLinks remembers whether an attempt to attach a pod found all that its interfaces attach
// to. If that is news which the machine's changes brought, others are told, and the attempt is
// no failure of the repair.
func (n *Network) noteLinks(ctx context.Context, pod loops.PodNetwork, repair bool, attempt func() error) error {
	err := attempt()
	if len(pod.Interfaces) == 0 {
		return err
	}
	var missing *loops.LinkMissing
	lacks := errors.As(err, &missing)
	n.mu.Lock()
	news := n.lacking[pod.ID] != lacks
	n.lacking[pod.ID] = lacks
	n.mu.Unlock()
	if !repair || (err != nil && !lacks) {
		return err
	}
	if news && n.cfg.Again != nil {
		n.log.Info("what a pod's interface attaches to came or went", "pod", pod.ID, "missing", err)
		n.cfg.Again(ctx, pod.ID)
	}
	return nil
}

// unfit says why an interface can't be attached to a link; empty if it can.
func unfit(link netlink.Link, i netstack.Interface) string {
	switch {
	case link == nil:
		return "there is no such link"
	case netstack.IsOurLink(i.Attach) || link.Attrs().Flags&net.FlagLoopback != 0:
		return "that link leads to no other network"
	case link.Attrs().Flags&net.FlagUp == 0:
		return "that link is down"
	case i.MTU > link.Attrs().MTU:
		return fmt.Sprintf("the MTU of that link is %d, and the interface's %d", link.Attrs().MTU, i.MTU)
	}
	return ""
}

// applyInterfaces makes a pod's further links agree with its plan. keep lists all that the
// spec names: those of them that have no plan now are left as they are.
func (n *Network) applyInterfaces(ctx context.Context, pod *space, id string, keep []netstack.Interface, plans []netstack.InterfaceState) error {
	if err := n.removeInterfaces(pod, id, keep); err != nil {
		return err
	}
	for _, p := range plans {
		if err := n.applyInterface(ctx, pod, p); err != nil {
			return fmt.Errorf("interface %s: %w", p.Inside.Links[0].Name, err)
		}
	}
	return nil
}

// removeInterfaces removes the links of ours that the pod no longer asks for.
func (n *Network) removeInterfaces(pod *space, id string, keep []netstack.Interface) error {
	links, err := pod.links()
	if err != nil {
		return err
	}
	for i, l := range links {
		name, ours := strings.CutPrefix(l.Alias, netstack.InterfaceAlias(n.cfg.Scope, id, ""))
		if !ours || slices.ContainsFunc(keep, func(k netstack.Interface) bool { return k.Name == name }) {
			continue
		}
		if err := pod.deleteLink(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: i, Name: l.Name}}); err != nil {
			return err
		}
	}
	return nil
}

func (n *Network) applyInterface(ctx context.Context, pod *space, plan netstack.InterfaceState) error {
	inside := plan.Inside.Links[0]
	if len(plan.Outside.Links) == 0 {
		link, fresh, err := n.ensureMacvlan(pod, inside)
		if err != nil {
			return err
		}
		return ends{pod, plan.Inside, link, fresh}.apply()
	}
	port, link, fresh, err := n.host.ensurePair(pod, plan.Outside.Links[0], inside)
	if err != nil {
		return err
	}
	if err := (ends{pod, plan.Inside, link, fresh}).apply(); err != nil {
		return err
	}
	if err := (ends{n.host, plan.Outside, port, fresh}).apply(); err != nil {
		return err
	}
	if err := n.host.setMaster(port, plan.Outside.Links[0]); err != nil {
		return err
	}
	return pod.settle(ctx, inside.Name, firstIPv6(plan.Inside.Addresses))
}

func firstIPv6(list []netstack.Address) netip.Addr {
	for _, a := range list {
		if a.Prefix.Addr().Is6() {
			return a.Prefix.Addr()
		}
	}
	return netip.Addr{}
}

// ensureMacvlan makes a link of the pod that is a macvlan of a link of the machine's; one of
// another kind or of another link is made anew.
func (n *Network) ensureMacvlan(pod *space, want netstack.Link) (link netlink.Link, fresh bool, err error) {
	parent, err := n.host.link(want.Parent)
	if err != nil {
		return nil, false, err
	}
	if parent == nil {
		return nil, false, fmt.Errorf("link %s vanished", want.Parent)
	}
	have, err := pod.link(want.Name)
	if err != nil {
		return nil, false, err
	}
	if m, ok := have.(*netlink.Macvlan); ok && m.Mode == netlink.MACVLAN_MODE_BRIDGE && m.ParentIndex == parent.Attrs().Index {
		return have, false, nil
	}
	if err := pod.deleteLink(have); err != nil {
		return nil, false, err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.Alias, attrs.MTU, attrs.HardwareAddr = want.Name, want.Alias, want.MTU, want.MAC[:]
	attrs.ParentIndex, attrs.Namespace = parent.Attrs().Index, netlink.NsFd(pod.fd)
	macvlan := &netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}
	if err := n.host.wrote(n.host.nl.LinkAdd(macvlan), want); err != nil {
		return nil, false, err
	}
	if link, err = pod.link(want.Name); err == nil && link == nil {
		err = fmt.Errorf("link %s vanished while it was being set up", want.Name)
	}
	return link, true, err
}

// setMaster makes a link a port of the bridge that the plan names.
func (s *space) setMaster(have netlink.Link, want netstack.Link) error {
	bridge, err := s.link(want.Master)
	if err != nil {
		return err
	}
	if bridge == nil {
		return fmt.Errorf("bridge %s vanished", want.Master)
	}
	if have.Attrs().MasterIndex == bridge.Attrs().Index {
		return nil
	}
	return s.wrote(s.nl.LinkSetMaster(have, bridge), want)
}

// removePorts removes the machine's ends of a pod's further links, which would otherwise
// last as long as anything that holds the pod's namespace open. What was attached by an earlier
// run is looked for.
func (n *Network) removePorts(podID string, pod loops.PodNetwork, attached bool) error {
	if attached && len(pod.Interfaces) == 0 {
		return nil
	}
	links, err := n.host.links()
	if err != nil {
		return err
	}
	var errs []error
	for i, l := range links {
		if strings.HasPrefix(l.Alias, netstack.InterfaceAlias(n.cfg.Scope, podID, "")) {
			errs = append(errs, n.host.deleteLink(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: i, Name: l.Name}}))
		}
	}
	return errors.Join(errs...)
}
