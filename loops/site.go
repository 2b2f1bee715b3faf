package loops

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// SiteTargets are the named points of a site's lifecycle. Machines follow all sites, as they
// do services: a site that is not ready is served as far as it goes.
func SiteTargets() []lifecycle.Target {
	return []lifecycle.Target{
		{Name: api.TargetReady, Goal: true, Requires: []string{"routes"}, Doc: "The site is served by every machine that knows it, and its routes lead to services that there are."},
	}
}

// Site looks whether the services that a site's routes name are there, with the ports that
// the routes name.
func Site() lifecycle.Loop {
	return lifecycle.Loop{
		Name: api.LoopSites,
		Kind: "Site",
		Steps: []lifecycle.Step{{
			Name:     "routes",
			Where:    lifecycle.OnExecutor,
			Reads:    []string{"spec.routes", "routed"},
			Consults: []string{"Service"},
			Timeout:  5 * time.Second,
			Decide:   checkRoutes,
		}},
	}
}

// routeEnd is where requests of a route may go.
type routeEnd struct {
	route, service string
	port           uint16
}

// field is the derived one that tells about the end.
func (r routeEnd) field() string { return api.Join("routed", r.service, fmt.Sprint(r.port)) }

// routeEnds lists where a site's routes lead, by route and service. One without a weight
// gets no requests.
func routeEnds(f api.Fields) (ends []routeEnd) {
	s, err := api.DecodeSite(f)
	if err != nil {
		return nil // which validation refuses
	}
	for _, r := range s.Spec.Routes {
		for _, name := range slices.Sorted(maps.Keys(r.Services)) {
			if r.Services[name] > 0 {
				ends = append(ends, routeEnd{r.Name, name, r.Port})
			}
		}
	}
	return ends
}

// DeriveSite tells of the services that routes lead to, below "routed.SERVICE.PORT": nothing
// where all is well, else what there is instead of the port.
func DeriveSite(o *lifecycle.Object, v Surroundings) api.Fields {
	fields := api.Fields{}
	for _, end := range routeEnds(o.Fields) {
		s, ok := v.Object(api.Key{Kind: "Service", Namespace: o.Key.Namespace, Name: end.service})
		if !ok || s.Deleted {
			fields[end.field()] = api.List()
			continue
		}
		if ports := tcpPorts(s.Fields); !slices.Contains(ports, fmt.Sprint(end.port)) {
			fields[end.field()] = api.List(append([]string{"service"}, ports...)...)
		}
	}
	return fields
}

func tcpPorts(service api.Fields) (ports []string) {
	for _, name := range service.Keys("spec.ports") {
		at := api.Child("spec.ports", name)
		if service.String(at+".protocol") == api.ProtocolTCP {
			ports = append(ports, fmt.Sprint(service.Int(at+".port")))
		}
	}
	return ports
}

func checkRoutes(v lifecycle.View, in lifecycle.Inputs) (lifecycle.Outputs, error) {
	for _, end := range routeEnds(in.Fields) {
		there, wrong := in.Fields[end.field()]
		if !wrong {
			continue
		}
		key := api.Key{Kind: "Service", Namespace: in.Key.Namespace, Name: end.service}.String()
		e := &lifecycle.Error{Code: api.ServiceMissing, Wait: true}
		if ports := (api.Fields{"": there}).Strings(""); len(ports) > 0 {
			e.Message = fmt.Sprintf("route %s leads to port %d of %s, which has no such port; it has %s", end.route, end.port, key, orNothing(ports[1:]))
			return nil, e
		}
		e.Message = fmt.Sprintf("route %s leads to %s, which does not exist", end.route, key)
		if others, ok := v.(Others); ok {
			if near := others.Nearest(key, ""); near != "" {
				e.Message += "; the nearest that exists is " + near
			}
		}
		return nil, e
	}
	return lifecycle.Outputs{}, nil
}

func orNothing(ports []string) string {
	if len(ports) == 0 {
		return "none for TCP"
	}
	return strings.Join(ports, ", ")
}
