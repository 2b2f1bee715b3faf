package loops

import (
	"net/netip"

	"starling.dev/starling/api"
	"starling.dev/starling/netstack"
)

// Interfaces are a pod's further links with their routes, as its spec asks for them, sorted
// by name. What does not parse is left out: the spec was validated.
func Interfaces(f api.Fields) (list []netstack.Interface) {
	for _, name := range f.Keys("spec.network.interfaces") {
		at := api.Child("spec.network.interfaces", name)
		i := netstack.Interface{Name: name, Attach: f.String(at + ".attach"), MTU: int(f.Int(at + ".mtu"))}
		for _, s := range f.Strings(at + ".addresses") {
			if p, err := netip.ParsePrefix(s); err == nil {
				i.Addresses = append(i.Addresses, p)
			}
		}
		i.Routes = routesBy(f, name)
		list = append(list, i)
	}
	return list
}

func routesBy(f api.Fields, link string) (list []netstack.Route) {
	for _, name := range f.Keys("spec.network.routes") {
		at := api.Child("spec.network.routes", name)
		to, err := netip.ParsePrefix(f.String(at + ".to"))
		if err != nil || f.String(at+".interface") != link {
			continue
		}
		via, _ := netip.ParseAddr(f.String(at + ".via")) // the zero Addr where there is none
		list = append(list, netstack.Route{Prefix: to, Via: via})
	}
	return list
}
