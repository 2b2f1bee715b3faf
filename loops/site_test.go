package loops

import (
	"testing"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

func serviceObject(name string, ports api.Fields) *lifecycle.Object {
	return &lifecycle.Object{Key: api.Key{Kind: "Service", Namespace: "shop", Name: name}, Fields: api.Effective("Service", ports)}
}

// A site says which of its routes leads nowhere: to no service, or to a port that the service
// lacks. What gets no requests does not matter.
func TestRoutesOfASite(t *testing.T) {
	spec := api.Effective("Site", api.Fields{
		"spec.routes.all.services.web": "1", "spec.routes.all.services.next": "0", "spec.routes.api.services.api": "1", "spec.routes.api.port": "8080",
	})
	web := serviceObject("web", api.Fields{"spec.ports.http.port": "80"})
	for _, c := range []struct {
		services []*lifecycle.Object
		want     string
	}{
		{nil, "route all leads to service/shop/web, which does not exist"},
		{[]*lifecycle.Object{web}, "route api leads to service/shop/api, which does not exist"},
		{[]*lifecycle.Object{web, serviceObject("api", api.Fields{"spec.ports.http.port": "80", "spec.ports.old.port": "81"})}, "route api leads to port 8080 of service/shop/api, which has no such port; it has 80, 81"},
		{[]*lifecycle.Object{web, serviceObject("api", api.Fields{"spec.ports.x.port": "8080", "spec.ports.x.protocol": `"udp"`})}, "route api leads to port 8080 of service/shop/api, which has no such port; it has none for TCP"},
		{[]*lifecycle.Object{web, serviceObject("api", api.Fields{"spec.ports.x.port": "8080"})}, ""},
	} {
		cluster := newFakeCluster()
		cluster.objects = append(cluster.objects, c.services...)
		in := inputs(spec.Clone())
		in.Key = api.Key{Kind: "Site", Namespace: "shop", Name: "shop"}
		for path, v := range DeriveSite(&lifecycle.Object{Key: in.Key, Fields: spec}, cluster) {
			in.Fields[path] = v
		}
		_, err := checkRoutes(cluster, in)
		if c.want == "" {
			if err != nil {
				t.Errorf("with all services: %v", err)
			}
			continue
		}
		if e := failure(t, err); e.Message != c.want || e.Code != api.ServiceMissing || !e.Wait {
			t.Errorf("got %s %q, want %q", e.Code, e.Message, c.want)
		}
	}
}
