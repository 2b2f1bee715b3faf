package api

// AnyNamespace stands for every namespace in an Allow.
const AnyNamespace = "*"

var allowKind = Kind{
	Name: "Allow", Plural: "allows", Namespaced: true,
	Doc: "An Allow says which pods may open connections to which. As soon as a namespace has one, its pods open and accept only " +
		"such connections with other pods as an Allow of that namespace names; a connection between two such namespaces needs one in each. " +
		"Names, the pod's own machine and the world outside of the cluster are always in reach.",
	Fields: []Field{
		{Path: "spec.from.labels.*", Type: TypeString,
			Doc: "The value that this label of the pod that connects must have."},
		{Path: "spec.from.namespace", Type: TypeString, Computed: "the namespace of the Allow",
			Doc: "The namespace of the pods that connect; * for all."},
		{Path: "spec.to.labels.*", Type: TypeString,
			Doc: "The value that this label of the pod that is connected to must have."},
		{Path: "spec.to.namespace", Type: TypeString, Computed: "the namespace of the Allow",
			Doc: "The namespace of the pods that are connected to; * for all."},
		{Path: "spec.ports.*.port", Type: TypePort, Required: true,
			Doc: "The port of the pod that is connected to, as the pod itself knows it."},
		{Path: "spec.ports.*.protocol", Type: TypeString, Default: `"tcp"`, Enum: []string{ProtocolTCP, ProtocolUDP},
			Doc: "The protocol of the port."},

		{Path: "lifecycle.target", Type: TypeString, Default: `"ready"`, Enum: []string{TargetReady},
			Doc: "The target that the Allow is to reach."},
	},
	Groups: []Group{
		{Path: "spec", Doc: "What is wanted. People write it."},
		{Path: "spec.from", Doc: "The pods that connect; all of the namespace where this is not given."},
		{Path: "spec.from.labels", Doc: "Labels that these pods have, all of them."},
		{Path: "spec.from.labels.*", Key: KeyLabel},
		{Path: "spec.to", Doc: "The pods that are connected to; all of the namespace where this is not given."},
		{Path: "spec.to.labels", Doc: "Labels that these pods have, all of them."},
		{Path: "spec.to.labels.*", Key: KeyLabel},
		{Path: "spec.ports", Doc: "The ports that are open, a map by name; all ports and protocols where this is not given."},
		{Path: "spec.ports.*", Key: KeyName, Doc: "One open port."},
		{Path: "lifecycle", Doc: "Which point of its lifecycle the Allow is to be at."},
	},
}

func allowRules(f Fields, add addFunc) {
	for _, path := range []string{"spec.from.namespace", "spec.to.namespace"} {
		if s := f.String(path); f.Has(path) && s != AnyNamespace {
			if err := CheckName(s); err != nil {
				add(path, "%v", err)
			}
		}
	}
	uniquePorts(f, f.Keys("spec.ports"), add)
}

// Allow is an Allow as loops read it; see [Pod].
type Allow struct {
	Spec      AllowSpec
	Lifecycle Lifecycle
}

// AllowSpec says who may open connections to whom.
type AllowSpec struct {
	From, To AllowSide
	Ports    []AllowPort // sorted by name; none: all
}

// AllowSide is the pods at one end of connections.
type AllowSide struct {
	Namespace string // empty: the Allow's own; AnyNamespace: all
	Labels    map[string]string
}

// AllowPort is one open port.
type AllowPort struct {
	Name     string
	Port     uint16
	Protocol string
}

// DecodeAllow reads an Allow's fields, as DecodePod reads a pod's.
func DecodeAllow(f Fields) (Allow, error) {
	r := newReader(f)
	side := func(at string) AllowSide {
		return AllowSide{Namespace: r.str(at + ".namespace"), Labels: r.stringMap(at + ".labels")}
	}
	a := Allow{Spec: AllowSpec{From: side("spec.from"), To: side("spec.to")}, Lifecycle: r.lifecycle()}
	for _, name := range r.x.keys("spec.ports") {
		at := Child("spec.ports", name)
		a.Spec.Ports = append(a.Spec.Ports, AllowPort{Name: name, Port: r.port(at + ".port"), Protocol: r.str(at + ".protocol")})
	}
	return a, r.err
}
