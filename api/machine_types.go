package api

// Machine is a machine as loops read it; see [Pod].
type Machine struct {
	Spec      MachineSpec
	Lifecycle Lifecycle
	Status    MachineStatus
}

// MachineSpec is what is wanted of a machine.
type MachineSpec struct {
	Labels  map[string]string
	Reserve Resources
	Address string
	// WireGuard is meaningful if it was given; else the machine decides.
	WireGuard bool
}

// Resources is an amount of each thing that pods reserve.
type Resources struct {
	CPU    int64 // thousandths of a core
	Memory int64 // bytes
}

// MachineStatus is what is, as the loops wrote it.
type MachineStatus struct {
	Capacity     Resources
	OS           string
	Kernel       string
	Architecture string
	Version      string
	Level        int64
	Address      string
	Listening    map[string]string // programs by port
	Runtime      string
	Runtimes     []string
	LAN          string
	Prefix       string
	Routes       int64
	WireGuard    MachineWireGuard
	Delegated    bool
	Ready        bool
}

// MachineWireGuard is a machine's WireGuard device; zero if it has none.
type MachineWireGuard struct {
	Key    string
	Port   int64
	Device string
	MTU    int64
}

// Allocatable returns what pods can reserve: the capacity less the reserve.
func (m Machine) Allocatable() Resources {
	return Resources{
		CPU:    max(0, m.Status.Capacity.CPU-m.Spec.Reserve.CPU),
		Memory: max(0, m.Status.Capacity.Memory-m.Spec.Reserve.Memory),
	}
}

// DecodeMachine reads a machine's fields, as DecodePod reads a pod's.
func DecodeMachine(f Fields) (Machine, error) {
	r := newReader(f)
	machine := Machine{
		Spec: MachineSpec{
			Labels:  r.stringMap("spec.labels"),
			Reserve: Resources{CPU: r.cpu("spec.reserve.cpu"), Memory: r.bytes("spec.reserve.memory")},
			Address: r.str("spec.address"), WireGuard: r.bool("spec.wireguard"),
		},
		Lifecycle: r.lifecycle(),
		Status: MachineStatus{
			Capacity:     Resources{CPU: r.cpu("status.capacity.cpu"), Memory: r.bytes("status.capacity.memory")},
			OS:           r.str("status.os"),
			Kernel:       r.str("status.kernel"),
			Architecture: r.str("status.architecture"),
			Version:      r.str("status.version"),
			Level:        r.int("status.level"),
			Address:      r.str("status.address"),
			Listening:    r.stringMap("status.listening"),
			Runtime:      r.str("status.runtime"),
			Runtimes:     r.strings("status.runtimes"),
			LAN:          r.str("status.lan"),
			Prefix:       r.str("status.prefix"),
			Routes:       r.int("status.routes"),
			Delegated:    r.bool("status.delegated"),
			WireGuard: MachineWireGuard{
				Key: r.str("status.wireguard.key"), Port: r.int("status.wireguard.port"),
				Device: r.str("status.wireguard.device"), MTU: r.int("status.wireguard.mtu"),
			},
			Ready: r.bool("status.ready"),
		},
	}
	return machine, r.err
}
