package api

import (
	"cmp"
	"slices"
	"time"
)

// Pod is a pod as loops read it: the fields of its table with units parsed. Fields
// that are absent are zero, so give DecodePod effective fields where defaults
// matter.
type Pod struct {
	Spec      PodSpec
	Lifecycle Lifecycle
	Status    PodStatus
}

// Lifecycle is where an object is to be in its lifecycle.
type Lifecycle struct {
	Target  string
	Restart int64    // pods only
	Skip    []string // steps that are passed over
	// From and Mode are of the switch that is under way, or was the last.
	From, Mode string
}

// Objects are the keys of other objects that a pod depends on.
type Objects struct{ Require, Bind []string }

// PodSpec is what is wanted of a pod.
type PodSpec struct {
	Containers []Container // sorted by name
	Require    map[string]string
	Objects    Objects
	Restart    string
	Stop       Stop
	Partition  string
	Grace      time.Duration
	Volumes    []Volume // sorted by name
	IPv4       string
	Interfaces []Interface // sorted by name
	Routes     []Route     // sorted by name
	Runtime    string
	Labels     map[string]string
	Parent     Parent
}

// Parent is what a pod belongs to; zero for one that a person made.
type Parent struct {
	Object string // as a person types it: "pinneddeployment/web"
	ID     string // its identity, hex
	Slot   int64
}

// Container is one container as it is wanted.
type Container struct {
	Name    string
	Image   string
	Command []string
	Args    []string
	Env     map[string]string
	WorkDir string
	User    string
	Ports   map[string]uint16
	// HostPorts are ports of the machine, by the name of the port that each leads to.
	HostPorts map[string]uint16
	CPU       int64   // thousandths of a core; 0: none reserved, no limit
	Memory    int64   // bytes; 0: none reserved, no limit
	Mounts    []Mount // sorted by path
	Probes    []Probe // sorted by name
}

// Probe is one way in which a container is asked how it is: HTTP, TCP, GRPC or Exec.
type Probe struct {
	Name      string // startup | readiness | liveness
	HTTP      string // ":8080/ready"
	TCP, GRPC uint16
	Exec      []string
	Period    time.Duration
	Timeout   time.Duration
	Failures  int64 // in a row that count as failing
	Successes int64 // in a row that count as passing
}

// Mount is a volume's place in a container.
type Mount struct {
	Volume   string
	Path     string
	ReadOnly bool
}

// Volume is storage that outlives the pod's containers.
type Volume struct {
	Name string
	Type string
}

// Stop is how containers are asked to end.
type Stop struct {
	Signal string
	Grace  time.Duration
}

// PodStatus is what is, as the loops wrote it.
type PodStatus struct {
	Machine    string
	Refused    map[string]string // by machine, from the scheduler
	Refusals   map[string]string // by machine, from the machines themselves
	Admission  Admission
	Waits      string            // key of the object that it requires and waits for
	Met        bool              // whether all that it requires was up when it started
	Images     map[string]string // digest by container
	Address    string
	Namespace  string            // path of the network namespace
	HostPorts  map[string]uint16 // of the machine, by the name of the pod's port
	Volumes    map[string]string // path by volume
	Containers []ContainerState  // sorted by name
	Fence      int64             // of a leased pod; 0: it has none
	Running    bool
	Ready      bool
}

// Admission is what the pod's machine reserved.
type Admission struct {
	Machine string
	CPU     int64 // thousandths of a core
	Memory  int64 // bytes
}

// ContainerState is one container as it is.
type ContainerState struct {
	Name     string
	ID       string
	PID      int64
	Started  time.Time
	Restarts int64
	Exited   bool // it ended and is not started again
	ExitCode int64
}

// Need returns what the pod reserves on its machine: the sums over its containers.
func (s PodSpec) Need() (cpu, memory int64) {
	for _, c := range s.Containers {
		cpu += c.CPU
		memory += c.Memory
	}
	return cpu, memory
}

// DecodePod reads a pod's fields. It fails on a value of the wrong type only; what
// is absent or unknown is not its business.
func DecodePod(f Fields) (Pod, error) {
	r := newReader(f)
	pod := Pod{
		Spec:      r.podSpec("spec"),
		Lifecycle: r.lifecycle(),
		Status:    r.podStatus(),
	}
	return pod, r.err
}

func (r *reader) lifecycle() Lifecycle {
	return Lifecycle{
		Target: r.str("lifecycle.target"), Restart: r.int("lifecycle.restart"), Skip: r.strings("lifecycle.skip"),
		From: r.str("lifecycle.from"), Mode: r.str("lifecycle.mode"),
	}
}

// podSpec reads the spec of a pod, or a template, that stands at the path.
func (r *reader) podSpec(at string) PodSpec {
	spec := PodSpec{
		Require:   r.stringMap(at + ".require"),
		Objects:   Objects{Require: r.strings(at + ".objects.require"), Bind: r.strings(at + ".objects.bind")},
		Restart:   r.str(at + ".restart"),
		Stop:      Stop{Signal: r.str(at + ".stop.signal"), Grace: r.duration(at + ".stop.grace")},
		Partition: r.str(at + ".partition"),
		Grace:     r.duration(at + ".grace"),
		IPv4:      r.str(at + ".network.ipv4"),
		Runtime:   r.str(at + ".runtime"),
		Labels:    r.stringMap(at + ".labels"),
		Parent:    Parent{r.str(at + ".parent.object"), r.str(at + ".parent.id"), r.int(at + ".parent.slot")},
	}
	for _, name := range r.x.keys(at + ".containers") {
		spec.Containers = append(spec.Containers, r.container(Child(at+".containers", name), name))
	}
	for _, name := range r.x.keys(at + ".network.interfaces") {
		spec.Interfaces = append(spec.Interfaces, r.networkInterface(Child(at+".network.interfaces", name), name))
	}
	for _, name := range r.x.keys(at + ".network.routes") {
		spec.Routes = append(spec.Routes, r.route(Child(at+".network.routes", name), name))
	}
	for _, name := range r.x.keys(at + ".volumes") {
		spec.Volumes = append(spec.Volumes, Volume{Name: name, Type: r.str(Child(at+".volumes", name) + ".type")})
	}
	return spec
}

func (r *reader) container(at, name string) Container {
	c := Container{
		Name:    name,
		Image:   r.str(at + ".image"),
		Command: r.strings(at + ".command"),
		Args:    r.strings(at + ".args"),
		Env:     r.stringMap(at + ".env"),
		WorkDir: r.str(at + ".workdir"),
		User:    r.str(at + ".user"),
		Ports:   r.portMap(at + ".ports"),

		HostPorts: r.portMap(at + ".hostPorts"),

		CPU:    r.cpu(at + ".resources.cpu"),
		Memory: r.bytes(at + ".resources.memory"),
	}
	for _, volume := range r.x.keys(at + ".mounts") {
		m := Child(at+".mounts", volume)
		c.Mounts = append(c.Mounts, Mount{Volume: volume, Path: r.str(m + ".path"), ReadOnly: r.bool(m + ".readonly")})
	}
	slices.SortStableFunc(c.Mounts, func(a, b Mount) int { return cmp.Compare(a.Path, b.Path) })
	for _, probe := range r.x.keys(at + ".probes") {
		c.Probes = append(c.Probes, r.probe(Child(at+".probes", probe), probe))
	}
	return c
}

func (r *reader) probe(at, name string) Probe {
	return Probe{
		Name:      name,
		HTTP:      r.str(at + ".http"),
		TCP:       r.port(at + ".tcp"),
		GRPC:      r.port(at + ".grpc"),
		Exec:      r.strings(at + ".exec"),
		Period:    r.duration(at + ".period"),
		Timeout:   r.duration(at + ".timeout"),
		Failures:  r.int(at + ".failures"),
		Successes: r.int(at + ".successes"),
	}
}

func (r *reader) podStatus() PodStatus {
	status := PodStatus{
		Machine:  r.str("status.machine"),
		Refused:  r.stringMap("status.refused"),
		Refusals: r.stringMap("status.refusals"),
		Waits:    r.str("status.objects.waits"),
		Met:      r.bool("status.objects.met"),
		Admission: Admission{
			Machine: r.str("status.admission.machine"),
			CPU:     r.cpu("status.admission.cpu"),
			Memory:  r.bytes("status.admission.memory"),
		},
		Images:    r.stringMap("status.images"),
		Address:   r.str("status.address"),
		Namespace: r.str("status.network.namespace"),
		HostPorts: r.portMap("status.network.hostPorts"),
		Volumes:   r.stringMap("status.volumes"),
		Fence:     r.int("status.fence"),
		Running:   r.bool("status.running"),
		Ready:     r.bool("status.ready"),
	}
	for _, name := range r.x.keys("status.containers") {
		status.Containers = append(status.Containers, r.containerState(name))
	}
	return status
}

func (r *reader) containerState(name string) ContainerState {
	at := Child("status.containers", name)
	return ContainerState{
		Name:     name,
		ID:       r.str(at + ".id"),
		PID:      r.int(at + ".pid"),
		Started:  r.time(at + ".started"),
		Restarts: r.int(at + ".restarts"),
		Exited:   r.f.Has(at + ".exit"),
		ExitCode: r.int(at + ".exit"),
	}
}
