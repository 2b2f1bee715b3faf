package api

import (
	"net/url"
	"path"
	"strings"
	"time"
)

// LoopSites looks where the routes of sites lead.
const LoopSites = "sites"

// Values of spec.routes.*.protocol.
const (
	ProtocolHTTP1 = "http1"
	ProtocolHTTP2 = "http2"
)

var siteKind = Kind{
	Name: "Site", Plural: "sites", Namespaced: true,
	Columns: []string{"spec.hosts"},
	Doc: "A Site takes HTTP and HTTPS requests, by host and path, to the pods of services. Every machine serves it, at ports 80 and 443 " +
		"and over IPv6 and IPv4, so that the names of its hosts may lead to any of them.",
	Fields: []Field{
		{Path: "spec.hosts", Type: TypeStrings,
			Doc: "The host names that the site has, as in [shop.example.com, \"*.shop.example.com\"]. Without it the site has all hosts that no other site names."},
		{Path: "spec.routes.*.path", Type: TypeString, Default: `"/"`,
			Doc: "Requests whose path begins with this, by whole segments, take the route. The longest path wins."},
		{Path: "spec.routes.*.services.*", Type: TypeInt,
			Doc: "The service's share of the route's requests, as a weight beside those of the others; 0 for none. Shares of services without ready pods go to the others."},
		{Path: "spec.routes.*.port", Type: TypePort, Default: "80",
			Doc: "The port of the services."},
		{Path: "spec.routes.*.protocol", Type: TypeString, Default: `"http1"`, Enum: []string{ProtocolHTTP1, ProtocolHTTP2},
			Doc: "What the pods are spoken to in: HTTP/1.1, which WebSockets need, or HTTP/2 without TLS, which gRPC needs."},
		{Path: "spec.routes.*.timeout", Type: TypeDuration, Unit: "seconds", Default: `"30s"`,
			Doc: "How long a pod may take to begin its answer. The answer itself may take as long as it likes."},
		{Path: "spec.routes.*.retries", Type: TypeInt, Default: "2",
			Doc: "To how many more pods a request is given that no pod took. One that a pod may have acted on is repeated only if it is a GET, HEAD, OPTIONS or TRACE without a body."},
		{Path: "spec.tls.certificate", Type: TypeString,
			Doc: "The absolute path of a file with the certificate and its chain, in PEM, on every machine. It is read again when it changes."},
		{Path: "spec.tls.key", Type: TypeString,
			Doc: "The absolute path of a file with the certificate's key, in PEM, on every machine."},
		{Path: "spec.tls.acme.email", Type: TypeString,
			Doc: "Has certificates made by a certificate authority, with this address for its account there. Each machine gets its own, for all hosts, which must lead to the machines at port 80. The authority's terms are agreed to."},
		{Path: "spec.tls.acme.directory", Type: TypeString, Default: `"https://acme-v02.api.letsencrypt.org/directory"`,
			Doc: "The certificate authority's directory URL (RFC 8555)."},
		{Path: "spec.tls.acme.trust", Type: TypeString,
			Doc: "The absolute path of a file on every machine with the root that the authority's own certificate is checked against, in PEM; the system's roots where this is not given."},

		{Path: "lifecycle.target", Type: TypeString, Default: `"ready"`, Enum: []string{TargetReady},
			Doc: "The target that the site is to reach."},
	},
	Groups: []Group{
		{Path: "spec", Doc: "What is wanted. People write it."},
		{Path: "spec.routes", Doc: "Where requests go, a map by name; at least one."},
		{Path: "spec.routes.*", Key: KeyName, Doc: "One route."},
		{Path: "spec.routes.*.services", Doc: "The services of the site's namespace whose pods answer, a map by name; at least one."},
		{Path: "spec.routes.*.services.*", Key: KeyName},
		{Path: "spec.tls", Doc: "Where the site's certificate comes from: files, or a certificate authority (acme). Without it the site speaks HTTP; with it, requests by HTTP are sent to HTTPS."},
		{Path: "spec.tls.acme", Doc: "An account with a certificate authority."},
		{Path: "lifecycle", Doc: "Which point of its lifecycle the site is to be at."},
	},
	Steps: []Step{{"routes", LoopSites}},
}

func siteRules(f Fields, add addFunc) {
	for _, h := range f.Strings("spec.hosts") {
		if !isHostName(strings.TrimPrefix(h, "*.")) {
			add("spec.hosts", "%q is not the name of a host; write it in lower case, as in shop.example.com or *.example.com", h)
		}
	}
	routes := f.Keys("spec.routes")
	if len(routes) == 0 {
		add("spec.routes", "a site needs at least one route, as in routes: {all: {services: {web: 1}}}")
	}
	for _, name := range routes {
		routeRules(f, Child("spec.routes", name), add)
	}
	files := f.Has("spec.tls.certificate") || f.Has("spec.tls.key")
	switch {
	case files && f.Has("spec.tls.acme.email"):
		add("spec.tls", "there are both files and acme; choose one")
	case f.Has("spec.tls.certificate") != f.Has("spec.tls.key"):
		add("spec.tls", "a certificate and its key go together; one of them is missing")
	case f.Has("spec.tls.acme.trust") && !f.Has("spec.tls.acme.email"):
		add("spec.tls.acme", "an account needs an email address")
	case f.Has("spec.tls.acme.email") && len(f.Strings("spec.hosts")) == 0:
		add("spec.hosts", "certificates are made for host names; name those of the site")
	}
	for _, at := range []string{"spec.tls.certificate", "spec.tls.key", "spec.tls.acme.trust"} {
		if s := f.String(at); f.Has(at) && !path.IsAbs(s) {
			add(at, "%q is not an absolute path", s)
		}
	}
	if s := f.String("spec.tls.acme.directory"); f.Has("spec.tls.acme.directory") {
		if u, err := url.Parse(s); err != nil || u.Scheme != "https" || u.Host == "" {
			add("spec.tls.acme.directory", "%q is not an https URL", s)
		}
	}
}

func routeRules(f Fields, at string, add addFunc) {
	if s := f.String(at + ".path"); f.Has(at+".path") && !strings.HasPrefix(s, "/") {
		add(at+".path", "%q does not begin with a slash", s)
	}
	services := f.Keys(at + ".services")
	sum := int64(0)
	for _, name := range services {
		n := f.Int(Child(at+".services", name))
		if n < 0 || n > 1000 {
			add(Child(at+".services", name), "%d is not between 0 and 1000", n)
		}
		sum += n
	}
	if sum == 0 {
		add(at+".services", "a route needs at least one service with a weight, as in services: {web: 1}")
	}
	intRange(f, at+".retries", 0, 10, add)
	durationRange(f, at+".timeout", minPeriod, maxGrace, add)
}

func isHostName(s string) bool {
	if len(s) == 0 || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if CheckName(label) != nil {
			return false
		}
	}
	return true
}

// Site is a site as loops read it; see [Pod].
type Site struct {
	Spec      SiteSpec
	Lifecycle Lifecycle
}

// SiteSpec is what is wanted of a site.
type SiteSpec struct {
	Hosts  []string
	Routes []SiteRoute // sorted by name
	TLS    SiteTLS
}

// SiteTLS is where a site's certificate comes from.
type SiteTLS struct{ Certificate, Key, Email, Directory, Trust string }

// SiteRoute is one route of a site.
type SiteRoute struct {
	Name     string
	Path     string
	Services map[string]int64 // weights
	Port     uint16
	Protocol string
	Timeout  time.Duration
	Retries  int64
}

// DecodeSite reads a site's fields, as DecodePod reads a pod's.
func DecodeSite(f Fields) (Site, error) {
	r := newReader(f)
	s := Site{
		Spec: SiteSpec{Hosts: r.strings("spec.hosts"), TLS: SiteTLS{
			Certificate: r.str("spec.tls.certificate"), Key: r.str("spec.tls.key"),
			Email: r.str("spec.tls.acme.email"), Directory: r.str("spec.tls.acme.directory"), Trust: r.str("spec.tls.acme.trust"),
		}},
		Lifecycle: r.lifecycle(),
	}
	for _, name := range r.x.keys("spec.routes") {
		at := Child("spec.routes", name)
		s.Spec.Routes = append(s.Spec.Routes, SiteRoute{
			Name: name, Path: r.str(at + ".path"), Services: readMap(r, at+".services", (*reader).int), Port: r.port(at + ".port"),
			Protocol: r.str(at + ".protocol"), Timeout: r.duration(at + ".timeout"), Retries: r.int(at + ".retries"),
		})
	}
	return s, r.err
}
