package daemon

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/netstack/service"
	"starling.dev/starling/netstack/site"
)

// Ports of sites, at all addresses of both families.
const (
	httpPort  = 80
	httpsPort = 443
)

// buildSites makes what serves sites.
func (d *Daemon) buildSites(context.Context) (err error) {
	any := netip.IPv6Unspecified()
	d.follower.sites, err = site.New(site.Config{
		HTTP: netip.AddrPortFrom(any, httpPort), HTTPS: netip.AddrPortFrom(any, httpsPort),
		Endpoints: d.follower.endpoints, Others: d.follower.otherMachines,
		Storage: filepath.Join(d.cfg.Data, "certificates"), Log: d.cfg.Logger.With("part", "sites"),
	})
	if err != nil {
		return err
	}
	d.add(d.follower.sites)
	return nil
}

// endpoints are where the pods of a service take connections to one of its ports.
func (f *follower) endpoints(k service.Key, port uint16) []netip.AddrPort {
	s, ok := f.directory.Service(k)
	if !ok {
		return nil
	}
	i := slices.IndexFunc(s.Ports, func(p service.Port) bool { return p.Port == port && p.Protocol == api.ProtocolTCP })
	if i < 0 {
		return nil
	}
	return s.Targets(i)
}

// otherMachines are the other machines' addresses in the cluster.
func (f *follower) otherMachines() (list []netip.Addr) {
	for _, m := range f.directory.Machines() {
		if m.Name != f.self && !m.Silent && m.Address.IsValid() {
			list = append(list, m.Address)
		}
	}
	return list
}

// serveSites has the sites served as the state says, if they are other than before.
func (f *follower) serveSites(before, now []*lifecycle.Object) {
	if same(before, now) {
		return
	}
	var list []site.Site
	for _, o := range now {
		if s, err := api.DecodeSite(o.Fields); err == nil && !o.Deleted {
			list = append(list, siteEntry(nameOf(o), s))
		}
	}
	f.sites.Set(list)
}

func siteEntry(k service.Key, s api.Site) site.Site {
	e := site.Site{Key: k, Hosts: s.Spec.Hosts, TLS: site.TLS{Certificate: s.Spec.TLS.Certificate, Key: s.Spec.TLS.Key}}
	if s.Spec.TLS.Email != "" {
		e.TLS.ACME = site.ACME{Email: s.Spec.TLS.Email, Directory: s.Spec.TLS.Directory, Trust: s.Spec.TLS.Trust}
	}
	for _, r := range s.Spec.Routes {
		route := site.Route{
			Name: r.Name, Path: r.Path, Port: r.Port, HTTP2: r.Protocol == api.ProtocolHTTP2,
			Timeout: r.Timeout, Retries: int(r.Retries),
		}
		for _, name := range slices.Sorted(maps.Keys(r.Services)) {
			route.Backends = append(route.Backends, site.Backend{Service: name, Weight: int(r.Services[name])})
		}
		e.Routes = append(e.Routes, route)
	}
	return e
}

// sitesState prints which sites this machine serves, one line per site.
func (f *follower) sitesState() string {
	var b strings.Builder
	for _, o := range f.seen.sites {
		hosts := cmp.Or(strings.Join(o.Fields.Strings("spec.hosts"), ", "), "all hosts")
		fmt.Fprintf(&b, "site %s: %s\n", nameOf(o), hosts)
	}
	if err := f.sites.Failed(); err != nil && len(f.seen.sites) > 0 {
		fmt.Fprintf(&b, "sites are not served: %v\n", err)
	}
	failures := f.sites.Failures()
	for _, host := range slices.Sorted(maps.Keys(failures)) {
		fmt.Fprintf(&b, "no certificate for %s: %s\n", host, failures[host])
	}
	return b.String()
}
