package api

import (
	"fmt"
	"testing"
)

func TestServicesAndAllowsThatFitTogether(t *testing.T) {
	service := Fields{"spec.select.app": Str("web"), "spec.ports.http.port": "80", "spec.address": "true"}
	with := func(f Fields, path, value string) Fields {
		f = f.Clone()
		f[path] = value
		return f
	}
	for _, tt := range []struct {
		name, kind string
		fields     Fields
		want       string
	}{
		{"a service", "Service", service, ""},
		{"a name alone needs no ports", "Service", Fields{"spec.select.app": Str("web")}, ""},
		{"no labels", "Service", Fields{"spec.ports.http.port": "80"}, "spec.select: a service needs at least one label to know its pods by"},
		{"an address without ports", "Service", Fields{"spec.select.app": Str("web"), "spec.address": "true"},
			"spec.ports: a service with an address needs at least one port; name one, as in ports: {http: {port: 80}}"},
		{"one port twice", "Service", with(service, "spec.ports.web.port", "80"), "spec.ports.web.port: port 80 (tcp) is http already"},
		{"one number, two protocols", "Service", with(with(service, "spec.ports.web.port", "80"), "spec.ports.web.protocol", Str("udp")), ""},
		{"a port without a number", "Service", with(service, "spec.ports.web.protocol", Str("udp")), "spec.ports.web: port is missing"},
		{"everything is allowed", "Allow", Fields{}, ""},
		{"from anywhere", "Allow", Fields{"spec.from.namespace": Str("*")}, ""},
		{"from nowhere", "Allow", Fields{"spec.from.namespace": Str("A b")},
			`spec.from.namespace: "A b" is not a name: use 1 to 63 of a-z, 0-9 and -, with no - at either end`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, problems := Normalize(tt.kind, tt.fields)
			got := ""
			for _, p := range problems {
				got += fmt.Sprintf("%s: %s", p.Path, p.Message)
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
