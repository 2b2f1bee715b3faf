package linux

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"starling.dev/starling/netstack"
)

// Finding is something on the machine that keeps pods from talking.
type Finding struct {
	Check   string // firewall | forwarding | ipv6 | rp_filter | range | networkd | uplink | conntrack
	Problem string // one sentence: what is wrong and where
	Remedy  string // a command or an action
}

// String prints the finding in one line.
func (f Finding) String() string { return f.Check + ": " + f.Problem + "; " + f.Remedy }

// Doctor looks for what is known to break the network of pods. It changes nothing.
func (n *Network) Doctor(ctx context.Context) ([]Finding, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n.mu.Lock()
	state, err := n.observe()
	n.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("examine the network: %w", err)
	}
	var found []Finding
	uplinks, err := n.uplinks(state.links, state.defaults)
	if err != nil {
		found = append(found, Finding{"uplink", err.Error(), "check `ip link` and the machine's cabling"})
	}
	found = append(found, n.checkSysctls(uplinks)...)
	found = append(found, n.checkRange(state)...)
	found = append(found, n.checkNetworkd()...)
	connections, err := n.checkConntrack()
	if err != nil {
		return found, fmt.Errorf("examine connection tracking: %w", err)
	}
	found = append(found, connections...)
	firewall, err := n.checkFirewall(uplinks)
	if err != nil {
		return found, fmt.Errorf("examine the firewall: %w", err)
	}
	return append(found, firewall...), nil
}

// expectation is a setting that must or must not have a value.
type expectation struct {
	check, key, bad, why string
	good                 string
}

func (n *Network) checkSysctls(uplinks []string) []Finding {
	want := []expectation{
		{"forwarding", "net/ipv6/conf/all/forwarding", "0", "the machine does not forward IPv6, so its pods reach nothing", "1"},
		{"forwarding", "net/ipv4/ip_forward", "0", "the machine does not forward IPv4, so its pods reach no IPv4 address", "1"},
		{"ipv6", "net/ipv6/conf/all/disable_ipv6", "1", "IPv6 is disabled on all links", "0"},
	}
	for _, link := range uplinks {
		key := "net/ipv6/conf/" + link + "/disable_ipv6"
		want = append(want, expectation{"ipv6", key, "1", "IPv6 is disabled on uplink " + link, "0"})
		if len(uplinks) > 1 {
			key := "net/ipv4/conf/" + link + "/rp_filter"
			why := "uplink " + link + " drops IPv4 replies that come back by another uplink"
			want = append(want, expectation{"rp_filter", key, "1", why, "2"})
		}
	}
	var keys []string
	for _, w := range want {
		keys = append(keys, w.key)
	}
	have := n.host.sysctls(keys)
	var found []Finding
	if _, ok := have[want[0].key]; !ok {
		return []Finding{{"ipv6", "this kernel has no IPv6", "boot it without ipv6.disable=1"}}
	}
	for _, w := range want {
		if have[w.key] == w.bad {
			found = append(found, Finding{w.check, w.why, "run: sysctl -w " + netstack.Sysctl{Key: w.key, Value: w.good}.Setting()})
		}
	}
	return found
}

// checkRange finds addresses of the machine in the range that its pods use behind it.
func (n *Network) checkRange(state machineState) []Finding {
	var found []Finding
	for _, a := range state.addresses {
		if a.Prefix.Addr().Is4() && n.cfg.IPv4.Contains(a.Prefix.Addr()) {
			found = append(found, Finding{
				"range",
				fmt.Sprintf("link %s has address %s, in the range %s that pods use on this machine", a.Link, a.Prefix, n.cfg.IPv4),
				"choose another range for the pods' IPv4",
			})
		}
	}
	return found
}

// networkdSetting keeps systemd-networkd from removing routes that it did not set.
const networkdSetting = "ManageForeignRoutes=no"

// networkdFile is where the setting is written, below the root of the file system.
const networkdFile = "etc/systemd/networkd.conf.d/starling.conf"

// networkdState is there while systemd-networkd runs, or has run since the boot.
const networkdState = "run/systemd/netif/state"

// SetUpNetworkd writes the setting below a root, "/" but for tests, and reports whether a
// systemd-networkd runs that has to be restarted to take it.
func SetUpNetworkd(root string) (restart bool, err error) {
	name := filepath.Join(root, networkdFile)
	text := "# Written by `peer install`: the routes to other machines and to pods are the peer's.\n[Network]\n" + networkdSetting + "\n"
	if have, err := os.ReadFile(name); err == nil && string(have) == text {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return false, fmt.Errorf("set up systemd-networkd: %w", err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		return false, fmt.Errorf("set up systemd-networkd: %w", err)
	}
	_, err = os.Stat(filepath.Join(root, networkdState))
	return err == nil, nil
}

// checkNetworkd finds a systemd-networkd that would remove our routes when it restarts.
// It only matters to a peer in the computer's own network namespace.
func (n *Network) checkNetworkd() []Finding {
	if !n.inFirstNamespace() {
		return nil
	}
	if _, err := os.Stat("/" + networkdState); err != nil {
		return nil
	}
	files := []string{"/etc/systemd/networkd.conf", "/usr/lib/systemd/networkd.conf", "/run/systemd/networkd.conf"}
	for _, dir := range []string{"/etc", "/usr/lib", "/run"} {
		more, _ := filepath.Glob(dir + "/systemd/networkd.conf.d/*.conf")
		files = append(files, more...)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err == nil && strings.Contains("\n"+string(b), "\n"+networkdSetting) {
			return nil
		}
	}
	return []Finding{{
		"networkd", "systemd-networkd removes the routes to other machines whenever it restarts",
		`write "[Network]" and "` + networkdSetting + `" to /` + networkdFile + ` (as ` + "`peer install`" + ` does) and run: systemctl restart systemd-networkd`,
	}}
}

func (n *Network) inFirstNamespace() bool {
	var ours, first unix.Stat_t
	return unix.Fstat(n.host.fd, &ours) == nil && unix.Stat("/proc/1/ns/net", &first) == nil && ours.Ino == first.Ino
}
