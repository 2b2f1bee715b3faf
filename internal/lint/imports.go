package lint

import (
	"slices"
	"strconv"
	"strings"
)

// Rule says what a package may import beside the standard library.
type Rule struct {
	// Packages of this module that the rule is for. A pattern that ends in /... stands
	// for the packages below; the longest pattern that fits a package counts.
	Of string
	// Own are the packages of this module that they may import, as patterns.
	Own []string
	// Libraries are modules, or parts of modules.
	Libraries []string
}

const everything = "..."

// Libraries that several rules allow.
var (
	system   = []string{"golang.org/x/sys/unix", "golang.org/x/sync/errgroup"}
	probes   = []string{"google.golang.org/grpc"} // containers are asked in the protocol that they speak
	wire     = []string{"connectrpc.com/connect", "google.golang.org/protobuf"}
	kernel   = append([]string{"github.com/google/nftables", "github.com/vishvananda/netlink", "github.com/vishvananda/netns", "github.com/mdlayher/ndp", "github.com/mdlayher/netlink", "github.com/cilium/ebpf", "golang.zx2c4.com/wireguard", "golang.org/x/net"}, system...)
	registry = []string{"github.com/google/go-containerregistry"}
	runtimes = append([]string{"github.com/containerd", "github.com/opencontainers", "github.com/distribution/reference", "github.com/sirupsen/logrus"}, system...)
)

// Rules is the table of DESIGN's section on packages, extended by the packages that came
// later (docs/adr/0002-packages.md says why). Whatever it does not list is forbidden.
func Rules() []Rule {
	return []Rule{
		// What everything else speaks of.
		{Of: "api", Libraries: []string{"github.com/goccy/go-yaml"}},
		{Of: "api/v1/...", Own: []string{"api/v1"}, Libraries: wire},
		{Of: "crdt"},
		// What decides: pure, and so the core that it makes up.
		{Of: "identity", Own: []string{"api", "crdt"}},
		{Of: "lifecycle", Own: []string{"api"}},
		{Of: "sched", Own: []string{"api"}},
		{Of: "quorum", Own: []string{"crdt"}},
		{Of: "rules", Own: []string{"api"}, Libraries: []string{"cel.dev/cel-go"}},
		{Of: "loops", Own: []string{"api", "lifecycle", "sched", "netstack", "netstack/service", "netstack/policy"}},
		{Of: "peer", Own: []string{"api", "crdt", "identity", "lifecycle", "sched", "loops", "quorum", "rules"}},
		{Of: "sim", Own: []string{"peer", "api", "crdt", "identity", "lifecycle", "quorum", "sched", "loops", "netstack"}},
		// The network: plans, algorithms, and what applies them to a kernel.
		{Of: "netstack", Own: []string{"api"}},
		{Of: "netstack/xlat"},
		{Of: "netstack/dns64", Own: []string{"netstack/xlat"}, Libraries: []string{"github.com/miekg/dns"}},
		{Of: "netstack/site", Own: []string{"netstack/service"}, Libraries: []string{"github.com/caddyserver/certmagic", "go.uber.org/zap", "golang.org/x/sync/errgroup"}},
		{Of: "netstack/...", Own: []string{"api", "loops", "netstack/..."}, Libraries: append([]string{"github.com/miekg/dns"}, kernel...)},
		// What meets the disk, the wire and containerd.
		{Of: "store", Own: []string{"api", "crdt"}, Libraries: append([]string{"github.com/dgraph-io/badger/v4"}, system...)},
		{Of: "store/storetest", Own: []string{"crdt", "store"}},
		{Of: "gossip", Own: []string{"api", "crdt", "identity"}, Libraries: append([]string{"github.com/hashicorp/serf", "github.com/hashicorp/memberlist"}, system...)},
		{Of: "oci", Own: []string{"api", "crdt", "identity", "lifecycle", "loops", "oci/tree"}, Libraries: runtimes},
		{Of: "oci/tree"},
		{Of: "oci/testimage", Libraries: registry},
		// A running peer, and what speaks to one.
		{Of: "server", Own: []string{"api", "api/v1/...", "crdt", "identity", "lifecycle", "oci", "peer"}, Libraries: wire},
		{Of: "daemon", Own: []string{"api", "api/v1/...", "crdt", "gossip", "identity", "internal/heap", "lifecycle", "loops", "netstack/...", "oci", "peer", "server", "store", "web"}, Libraries: append(probes, system...)},
		{Of: "client/...", Own: []string{"api", "api/v1/...", "client"}, Libraries: append([]string{"github.com/goccy/go-yaml"}, wire...)},
		{Of: "loop", Own: []string{"api", "api/v1/...", "client"}, Libraries: wire},
		{Of: "compose", Own: []string{"api"}, Libraries: []string{"github.com/compose-spec/compose-go/v2"}},
		{Of: "lab", Own: []string{"api", "api/v1/...", "client", "netstack/linux", "netstack/linux/lan"}, Libraries: system},
		{Of: "web", Own: []string{"api", "api/v1/...", "client"}, Libraries: wire},
		{Of: "internal/heap"},
		{Of: "cmd/...", Own: []string{everything}, Libraries: []string{everything}},
		// Tools of the project, examples for its users, and tests of the whole.
		{Of: "internal/...", Own: []string{everything}, Libraries: []string{everything}},
		{Of: "examples/loops/...", Own: []string{"api", "loop"}},
		{Of: "examples/..."},
		{Of: "e2e", Own: []string{everything}, Libraries: []string{everything}},
	}
}

// CheckImports applies rules. Tests are free to import what they compare with.
func (t *Tree) CheckImports(rules []Rule) (problems []string) {
	for _, f := range t.Files {
		if f.Test() {
			continue
		}
		rule, ok := ruleOf(rules, f.Package())
		if !ok {
			problems = append(problems, t.at(f.Syntax.Package, "package %s has no rule; add one to internal/lint/imports.go and say why in an ADR", f.Package()))
			continue
		}
		for _, spec := range f.Syntax.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err == nil && !rule.allows(name) {
				problems = append(problems, t.at(spec.Pos(), "%s may not import %s", f.Package(), name))
			}
		}
	}
	return problems
}

func (r Rule) allows(name string) bool {
	if own, ok := strings.CutPrefix(name, Module+"/"); ok {
		return slices.ContainsFunc(r.Own, func(p string) bool { return fits(p, own) })
	}
	if first, _, _ := strings.Cut(name, "/"); !strings.Contains(first, ".") {
		return true // the standard library
	}
	return slices.ContainsFunc(r.Libraries, func(l string) bool { return fits(l+"/...", name) || l == everything })
}

// fits reports whether a pattern stands for a name.
func fits(pattern, name string) bool {
	base, below := strings.CutSuffix(pattern, "/...")
	return pattern == everything || name == base || below && strings.HasPrefix(name, base+"/")
}

func ruleOf(rules []Rule, pkg string) (best Rule, ok bool) {
	for _, r := range rules {
		if !fits(r.Of, pkg) {
			continue
		}
		exact, old := r.Of == pkg, len(best.Of)
		if exact {
			return r, true
		}
		if len(r.Of) > old {
			best, ok = r, true
		}
	}
	return best, ok
}

// Reach is every package of the module that may be linked into pkg, by the rules.
func Reach(rules []Rule, pkg string) map[string]bool {
	seen := map[string]bool{}
	todo := []string{pkg}
	for len(todo) > 0 {
		r, _ := ruleOf(rules, todo[0])
		todo = todo[1:]
		for _, own := range r.Own {
			if !seen[own] {
				seen[own] = true
				todo = append(todo, own)
			}
		}
	}
	return seen
}
