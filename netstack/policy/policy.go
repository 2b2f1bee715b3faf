package policy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"starling.dev/starling/netstack/service"
)

// AnyNamespace stands for every namespace.
const AnyNamespace = "*"

// Side is the pods at one end of connections.
type Side struct {
	Namespace string // AnyNamespace for all
	Labels    map[string]string
}

func (s Side) has(p service.Pod) bool {
	return (s.Namespace == AnyNamespace || s.Namespace == p.Namespace) && service.Match(s.Labels, p.Labels)
}

// Port is an open port.
type Port struct {
	Protocol string // tcp | udp
	Port     uint16
}

// Allow says which pods may open connections to which.
type Allow struct {
	service.Key
	From, To Side
	Ports    []Port // none: all
}

// Rule is an Allow with the addresses of today's pods.
type Rule struct {
	Name     string
	From, To []netip.Addr // sorted
	Ports    []Port       // sorted; none: all
}

// Namespace is one that has an Allow: whatever its rules don't name is refused.
type Namespace struct {
	Name  string
	Rules []Rule
}

// Guarded is a pod of this machine in such a namespace.
type Guarded struct {
	Address   netip.Addr
	Namespace string
}

// Plan is what a machine should enforce for its own pods.
type Plan struct {
	Pods       []Guarded   // sorted by address
	Namespaces []Namespace // sorted by name; only those of Pods
	// Beyond are the addresses of pods that are not of the cluster's prefix, as in mode
	// lan, sorted: who has one is in the cluster nevertheless.
	Beyond []netip.Addr
}

// Make plans for the pods of one machine.
func Make(machine string, pods []service.Pod, allows []Allow) Plan {
	guarded := map[string][]Allow{}
	for _, a := range allows {
		guarded[a.Namespace] = append(guarded[a.Namespace], a)
	}
	var p Plan
	here := map[string]bool{}
	for _, pod := range pods {
		if _, ok := guarded[pod.Namespace]; ok && pod.Machine == machine && pod.Address.IsValid() {
			p.Pods = append(p.Pods, Guarded{pod.Address, pod.Namespace})
			here[pod.Namespace] = true
		}
	}
	slices.SortFunc(p.Pods, func(a, b Guarded) int { return a.Address.Compare(b.Address) })
	for name := range here {
		p.Namespaces = append(p.Namespaces, Namespace{name, rules(guarded[name], pods)})
	}
	slices.SortFunc(p.Namespaces, func(a, b Namespace) int { return cmp.Compare(a.Name, b.Name) })
	return p
}

// rules resolves the Allows of one namespace. One that no pod is at an end of is left
// out: it allows nothing.
func rules(allows []Allow, pods []service.Pod) (list []Rule) {
	for _, a := range allows {
		r := Rule{Name: a.Name, From: addresses(a.From, pods), To: addresses(a.To, pods), Ports: slices.Clone(a.Ports)}
		slices.SortFunc(r.Ports, func(a, b Port) int {
			return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
		})
		if len(r.From) > 0 && len(r.To) > 0 {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b Rule) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func addresses(s Side, pods []service.Pod) (list []netip.Addr) {
	for _, p := range pods {
		if p.Address.IsValid() && s.has(p) {
			list = append(list, p.Address)
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return list
}

// Empty reports whether there is nothing to enforce.
func (p Plan) Empty() bool { return len(p.Pods) == 0 }

// String prints the plan, one line per thing.
func (p Plan) String() string {
	var b strings.Builder
	for _, g := range p.Pods {
		fmt.Fprintf(&b, "pod %s namespace %s\n", g.Address, g.Namespace)
	}
	if len(p.Beyond) > 0 {
		fmt.Fprintf(&b, "of the cluster too: %s\n", join(p.Beyond))
	}
	for _, n := range p.Namespaces {
		fmt.Fprintf(&b, "namespace %s\n", n.Name)
		for _, r := range n.Rules {
			fmt.Fprintf(&b, "  %s: from %s to %s%s\n", r.Name, join(r.From), join(r.To), r.ports())
		}
		b.WriteString("  refuse the rest\n")
	}
	return b.String()
}

func (r Rule) ports() string {
	var list []string
	for _, p := range r.Ports {
		list = append(list, fmt.Sprintf("%s %d", p.Protocol, p.Port))
	}
	if len(list) == 0 {
		return ""
	}
	return " at " + strings.Join(list, ", ")
}

func join(list []netip.Addr) string {
	words := make([]string, len(list))
	for i, a := range list {
		words[i] = a.String()
	}
	return strings.Join(words, ", ")
}
