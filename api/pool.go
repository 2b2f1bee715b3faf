package api

import "net/netip"

var poolKind = Kind{
	Name: "Pool", Plural: "pools",
	Columns: []string{"spec.prefixes"},
	Doc: "A Pool is a set of free addresses of the machines' LAN, IPv6 and IPv4, from which services have theirs for clients outside of the cluster. " +
		"One machine at a time answers for each address; when it is lost, another does within seconds.",
	Fields: []Field{
		{Path: "spec.prefixes", Type: TypeStrings, Required: true,
			Doc: "The addresses, as prefixes of either family: [192.0.2.16/28, \"2001:db8::10/124\"]. Nobody else on the LAN may have any of them."},
		{Path: "spec.require.*", Type: TypeString,
			Doc: "The value that this label of a machine must have for the machine to answer for addresses of the pool."},

		{Path: "lifecycle.target", Type: TypeString, Default: `"ready"`, Enum: []string{TargetReady},
			Doc: "The target that the pool is to reach."},
	},
	Groups: []Group{
		{Path: "spec", Doc: "What is wanted. People write it."},
		{Path: "spec.require", Doc: "Labels that a machine must have to answer for the pool's addresses; all machines may where this is not given."},
		{Path: "spec.require.*", Key: KeyLabel},
		{Path: "lifecycle", Doc: "Which point of its lifecycle the pool is to be at."},
	},
}

func poolRules(f Fields, add addFunc) {
	list := f.Strings("spec.prefixes")
	if f.Has("spec.prefixes") && len(list) == 0 {
		add("spec.prefixes", "the list is empty; write at least one prefix, as in 192.0.2.16/28")
	}
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		switch {
		case err != nil:
			add("spec.prefixes", "%q is not a prefix; write one as in 192.0.2.16/28 or 2001:db8::10/124", s)
		case p.Masked() != p:
			add("spec.prefixes", "%s has bits beyond its length; did you mean %s?", s, p.Masked())
		case p.Addr().IsMulticast() || p.Addr().IsLinkLocalUnicast() || p.Addr().IsLoopback():
			add("spec.prefixes", "%s has no addresses that a LAN's clients reach", s)
		}
	}
}

// Pool is a pool as loops read it; see [Pod].
type Pool struct {
	Spec      PoolSpec
	Lifecycle Lifecycle
}

// PoolSpec is what is wanted of a pool.
type PoolSpec struct {
	Prefixes []string
	Require  map[string]string
}

// DecodePool reads a pool's fields, as DecodePod reads a pod's.
func DecodePool(f Fields) (Pool, error) {
	r := newReader(f)
	p := Pool{Spec: PoolSpec{Prefixes: r.strings("spec.prefixes"), Require: r.stringMap("spec.require")}, Lifecycle: r.lifecycle()}
	return p, r.err
}
