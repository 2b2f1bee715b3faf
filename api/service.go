package api

// Values of spec.affinity.
const (
	AffinityNone   = "none"
	AffinityClient = "client"
)

// LoopExternal gives services addresses of pools.
const LoopExternal = "external"

// Protocols of ports.
const (
	ProtocolTCP = "tcp"
	ProtocolUDP = "udp"
)

var serviceKind = Kind{
	Name: "Service", Plural: "services", Namespaced: true,
	Columns: []string{"status.address", "status.external"},
	Doc: "A Service is one name for the ready pods of its namespace that have certain labels: NAME.NAMESPACE.svc.cluster. " +
		"With an address it is also one stable IPv6 address whose connections every machine spreads over those pods.",
	Fields: []Field{
		{Path: "spec.select.*", Type: TypeString,
			Doc: "The value that this label of a pod must have. A pod belongs to the service if all of them agree."},
		{Path: "spec.ports.*.port", Type: TypePort, Required: true,
			Doc: "The port that clients of the service's address use."},
		{Path: "spec.ports.*.target", Type: TypePort, Computed: "the pod's port of the same name, else the service's own",
			Doc: "The port that the pods listen on."},
		{Path: "spec.ports.*.protocol", Type: TypeString, Default: `"tcp"`, Enum: []string{ProtocolTCP, ProtocolUDP},
			Doc: "The protocol of the port."},
		{Path: "spec.address", Type: TypeBool, Default: "false",
			Doc: "Whether the service has an address of its own. Without one its name stands for the addresses of its pods."},
		{Path: "spec.pool", Type: TypeString,
			Doc: "The Pool from which the service has addresses for clients outside of the cluster, one of each family that the pool has."},
		{Path: "spec.affinity", Type: TypeString, Default: `"none"`, Enum: []string{AffinityNone, AffinityClient},
			Doc: "Whether a client's connections to the address go to the same pod for as long as the pods stay the same (client), or to any."},

		{Path: "lifecycle.target", Type: TypeString, Default: `"ready"`, Enum: []string{TargetReady},
			Doc: "The target that the service is to reach."},

		{Path: "status.address", Type: TypeString, Owner: LoopAddress,
			Doc: "The service's IPv6 address, drawn at random and kept for life."},
		{Path: "status.external", Type: TypeStrings, Owner: LoopExternal,
			Doc: "The service's addresses for clients outside of the cluster, from its pool."},
	},
	Groups: []Group{
		{Path: "spec", Doc: "What is wanted. People write it."},
		{Path: "spec.select", Doc: "The labels of the pods that the service stands for; at least one."},
		{Path: "spec.select.*", Key: KeyLabel},
		{Path: "spec.ports", Doc: "The service's ports, a map by name. Each is found as _NAME._PROTOCOL.SERVICE.NAMESPACE.svc.cluster (SRV) too."},
		{Path: "spec.ports.*", Key: KeyName, Doc: "One port of the service."},
		{Path: "lifecycle", Doc: "Which point of its lifecycle the service is to be at."},
		{Path: "status", Doc: "What is. Loops write it, each its own fields."},
	},
	Steps: []Step{{"address", LoopAddress}},
}

func serviceRules(f Fields, add addFunc) {
	if len(f.Keys("spec.select")) == 0 {
		add("spec.select", "a service needs at least one label to know its pods by")
	}
	ports := f.Keys("spec.ports")
	if err := CheckName(f.String("spec.pool")); f.Has("spec.pool") && err != nil {
		add("spec.pool", "%v", err)
	}
	if (f.Bool("spec.address") || f.Has("spec.pool")) && len(ports) == 0 {
		add("spec.ports", "a service with an address needs at least one port; name one, as in ports: {http: {port: 80}}")
	}
	uniquePorts(f, ports, add)
}

// uniquePorts: two ports of one number and protocol could not be told apart.
func uniquePorts(f Fields, ports []string, add addFunc) {
	type number struct {
		protocol string
		port     int64
	}
	taken := map[number]string{}
	for _, name := range ports {
		at := Child("spec.ports", name)
		n := number{f.String(at + ".protocol"), f.Int(at + ".port")}
		if n.protocol == "" {
			n.protocol = ProtocolTCP
		}
		if other, ok := taken[n]; ok {
			add(at+".port", "port %d (%s) is %s already", n.port, n.protocol, other)
			continue
		}
		taken[n] = name
	}
}

// Service is a service as loops read it; see [Pod].
type Service struct {
	Spec      ServiceSpec
	Lifecycle Lifecycle
	Status    ServiceStatus
}

// ServiceSpec is what is wanted of a service.
type ServiceSpec struct {
	Select   map[string]string
	Ports    []ServicePort // sorted by name
	Address  bool
	Affinity string
	Pool     string
}

// ServicePort is one port of a service.
type ServicePort struct {
	Name     string
	Port     uint16
	Target   uint16 // 0: the pod's port of this name, else Port
	Protocol string
}

// ServiceStatus is what is, as the loops wrote it.
type ServiceStatus struct {
	Address  string
	External []string
}

// DecodeService reads a service's fields, as DecodePod reads a pod's.
func DecodeService(f Fields) (Service, error) {
	r := newReader(f)
	s := Service{
		Spec: ServiceSpec{
			Select: r.stringMap("spec.select"), Address: r.bool("spec.address"), Affinity: r.str("spec.affinity"),
			Pool: r.str("spec.pool"),
		},
		Lifecycle: r.lifecycle(),
		Status:    ServiceStatus{Address: r.str("status.address"), External: r.strings("status.external")},
	}
	for _, name := range r.x.keys("spec.ports") {
		at := Child("spec.ports", name)
		s.Spec.Ports = append(s.Spec.Ports, ServicePort{
			Name: name, Port: r.port(at + ".port"), Target: r.port(at + ".target"), Protocol: r.str(at + ".protocol"),
		})
	}
	return s, r.err
}
