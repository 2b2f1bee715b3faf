package fastpath

import (
	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
)

// inherit returns the maps of the program that an earlier process has hooked to the
// machine's NAT64 link, if this one can go on with them: pods that are in them don't
// notice that programs are replaced. What can't be read is not inherited.
func (p *Path) inherit(nat64 int) map[string]*ebpf.Map {
	if nat64 == 0 {
		return nil
	}
	old, err := p.hook.ours(nat64, egress)
	defer closeAll(old)
	if err != nil || len(old) == 0 {
		return nil
	}
	info, err := old[0].Info()
	if err != nil {
		return nil
	}
	ids, _ := info.MapIDs()
	maps := map[string]*ebpf.Map{}
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			continue
		}
		if !p.inheritable(m, maps) {
			m.Close()
		}
	}
	if len(maps) != 3 {
		closeMaps(maps)
		return nil
	}
	forgetGone(maps["by_link"], maps["by_address"])
	return maps
}

// inheritable enters a map that is just as the programs want it.
func (p *Path) inheritable(m *ebpf.Map, maps map[string]*ebpf.Map) bool {
	info, err := m.Info()
	if err != nil {
		return false
	}
	spec := p.spec.Maps[info.Name]
	if spec == nil || spec.Compatible(m) != nil {
		return false
	}
	switch info.Name {
	case "by_link", "by_address", "counts":
		maps[info.Name] = m
		return true
	}
	return false
}

func closeMaps(maps map[string]*ebpf.Map) {
	for _, m := range maps {
		m.Close()
	}
}

// forgetGone drops pods whose links have gone while no process was there.
func forgetGone(byLink, byAddress *ebpf.Map) {
	var link uint32
	var v value
	gone := map[uint32]value{}
	for it := byLink.Iterate(); it.Next(&link, &v); {
		if _, err := netlink.LinkByIndex(int(link)); err != nil {
			gone[link] = v
		}
	}
	for link, v := range gone {
		_ = byLink.Delete(link)
		for _, a := range []uint32{v.Native, v.Behind} {
			var now value
			if byAddress.Lookup(a, &now) == nil && now == v {
				_ = byAddress.Delete(a)
			}
		}
	}
}
