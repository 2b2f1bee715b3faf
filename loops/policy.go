package loops

import (
	"cmp"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/netstack/policy"
)

// AllowEntry is an Allow as machines enforce it.
func AllowEntry(o *lifecycle.Object) policy.Allow {
	a := policy.Allow{Key: keyOf(o), From: allowSide(o, "spec.from"), To: allowSide(o, "spec.to")}
	for _, name := range o.Fields.Keys("spec.ports") {
		at := api.Child("spec.ports", name)
		a.Ports = append(a.Ports, policy.Port{Protocol: o.Fields.String(at + ".protocol"), Port: uint16(o.Fields.Int(at + ".port"))})
	}
	return a
}

func allowSide(o *lifecycle.Object, at string) policy.Side {
	side := policy.Side{Namespace: cmp.Or(o.Fields.String(at+".namespace"), o.Key.Namespace), Labels: map[string]string{}}
	for _, k := range o.Fields.Keys(at + ".labels") {
		side.Labels[k] = o.Fields.String(api.Child(at+".labels", k))
	}
	return side
}
