package site

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"starling.dev/starling/netstack/service"
)

// Site is what a machine serves for some hosts. It is never changed.
type Site struct {
	service.Key
	Hosts  []string // in lower case; none: every host that no other site names
	Routes []Route
	TLS    TLS
}

// Route takes requests whose path begins with Path to services.
type Route struct {
	Name     string
	Path     string
	Port     uint16        // of the services
	Backends []Backend     // sorted by service
	HTTP2    bool          // pods are spoken to in HTTP/2
	Timeout  time.Duration // for the pod to begin its answer
	Retries  int           // how many more pods are tried
}

// Backend is a share of a route's requests.
type Backend struct {
	Service string // of the site's namespace
	Weight  int
}

// TLS says where a site's certificate comes from. The zero value: there is none, and the
// site speaks HTTP.
type TLS struct {
	// Certificate and Key are files on the machine, in PEM.
	Certificate, Key string
	// ACME has a certificate made by a certificate authority.
	ACME ACME
}

// ACME is an account with a certificate authority (RFC 8555).
type ACME struct {
	Email     string // empty: no ACME
	Directory string // URL
	Trust     string // file with the authority's own root, for one that nobody knows; optional
}

// On reports whether the site speaks HTTPS.
func (t TLS) On() bool { return t.Certificate != "" || t.ACME.Email != "" }

// Endpoints finds where the pods of a service take connections now.
type Endpoints func(service.Key, uint16) []netip.AddrPort

// table finds a route by host and path.
type table struct {
	byHost map[string]Site
	any    *Site
}

// newTable indexes sites. Two sites that name one host are told apart by their keys: the
// first has it.
func newTable(sites []Site) *table {
	t := &table{byHost: map[string]Site{}}
	for _, s := range slices.SortedFunc(slices.Values(sites), func(a, b Site) int { return a.Compare(b.Key) }) {
		s.Routes = slices.Clone(s.Routes)
		slices.SortStableFunc(s.Routes, func(a, b Route) int { return len(b.Path) - len(a.Path) }) // the longest first
		for _, h := range s.Hosts {
			if _, taken := t.byHost[h]; !taken {
				t.byHost[h] = s
			}
		}
		if len(s.Hosts) == 0 && t.any == nil {
			t.any = &s
		}
	}
	return t
}

// site finds the site of a host, which may be named by a wildcard for its domain.
func (t *table) site(host string) (Site, bool) {
	if s, ok := t.byHost[host]; ok {
		return s, true
	}
	if _, domain, ok := strings.Cut(host, "."); ok {
		if s, ok := t.byHost["*."+domain]; ok {
			return s, true
		}
	}
	if t.any != nil {
		return *t.any, true
	}
	return Site{}, false
}

// route finds the route with the longest path that the request's begins with, by whole
// segments.
func (s Site) route(path string) (Route, bool) {
	for _, r := range s.Routes {
		rest, ok := strings.CutPrefix(path, strings.TrimSuffix(r.Path, "/"))
		if ok && (rest == "" || rest[0] == '/') {
			return r, true
		}
	}
	return Route{}, false
}
