package api

// The loops of a machine, by the names that own its fields. LoopReadiness writes
// its status.ready.
const (
	LoopInventory = "inventory"
	LoopRuntime   = "runtime"
	LoopRoutes    = "routes"
	LoopWireGuard = "wireguard"
)

var machineKind = Kind{
	Name: "Machine", Plural: "machines",
	Doc: "A machine is a computer in the cluster. It is known by its key, so its address may change and its name stays.",
	Fields: []Field{
		{Path: "spec.labels.*", Type: TypeString,
			Doc: "The value of one label; pods ask for it in spec.require."},
		{Path: "spec.reserve.cpu", Type: TypeCPU, Unit: "cores", Default: `"0"`,
			Doc: "Cores that are kept from pods, for the machine itself."},
		{Path: "spec.reserve.memory", Type: TypeBytes, Unit: "bytes", Default: `"0"`,
			Doc: "Memory that is kept from pods, for the machine itself."},
		{Path: "spec.address", Type: TypeString,
			Computed: "the source address towards the machine that it joined through",
			Doc:      "The IP address at which the other machines reach this one."},
		{Path: "spec.wireguard", Type: TypeBool,
			Computed: "whether the machine's peer was last started with --wireguard",
			Doc:      "Whether the machine has a WireGuard device. What goes between two machines that both have one goes through a tunnel."},

		{Path: "lifecycle.target", Type: TypeString, Default: `"ready"`, Enum: []string{TargetReady, TargetDrained},
			Doc: "The target that the machine is to reach. `peer machine drain` and `resume` write it. A drained machine runs no pods and takes none."},
		{Path: "lifecycle.from", Type: TypeString,
			Doc: "The target at which the machine was last at rest: a switch that is cancelled returns there. `peer switch` writes it."},
		{Path: "lifecycle.mode", Type: TypeString, Enum: switchModes,
			Doc: "What another switch may do while this one is under way; replace where this is not given. `peer switch --mode` writes it."},

		{Path: "status.capacity.cpu", Type: TypeCPU, Unit: "cores", Owner: LoopInventory,
			Doc: "The cores that the machine has."},
		{Path: "status.capacity.memory", Type: TypeBytes, Unit: "bytes", Owner: LoopInventory,
			Doc: "The memory that the machine has."},
		{Path: "status.os", Type: TypeString, Owner: LoopInventory,
			Doc: "The operating system and its version."},
		{Path: "status.kernel", Type: TypeString, Owner: LoopInventory,
			Doc: "The kernel's version."},
		{Path: "status.architecture", Type: TypeString, Owner: LoopInventory,
			Doc: "The processor's architecture, in the words of image platforms: amd64, arm64."},
		{Path: "status.version", Type: TypeString, Owner: LoopInventory,
			Doc: "The version of the program that the machine runs."},
		{Path: "status.level", Type: TypeInt, Owner: LoopInventory,
			Doc: "The highest level that the machine's program supports."},
		{Path: "status.address", Type: TypeString, Owner: LoopInventory,
			Doc: "The IP address at which the other machines reach this one, as it is now."},
		{Path: "status.listening.*", Type: TypeString, Owner: LoopInventory,
			Doc: "The program that listens on this port of the machine. Only ports that pods want as host ports are looked at."},
		{Path: "status.runtime", Type: TypeString, Owner: LoopRuntime,
			Doc: "The container runtime and its version."},
		{Path: "status.runtimes", Type: TypeStrings, Owner: LoopRuntime,
			Doc: "The OCI runtimes that pods can name in spec.runtime."},
		{Path: "status.lan", Type: TypeString, Owner: LoopInventory,
			Doc: "The IPv6 prefix of the machine's LAN, which its pods have their addresses from. Only where the cluster's network is lan."},
		{Path: "status.prefix", Type: TypeString, Owner: LoopRoutes,
			Doc: "The machine's own IPv6 prefix in the cluster. Its pods have their addresses from it, unless the cluster's network is lan."},
		{Path: "status.routes", Type: TypeInt, Owner: LoopRoutes,
			Doc: "How many other machines' prefixes this one routes."},
		{Path: "status.wireguard.key", Type: TypeString, Owner: LoopWireGuard,
			Doc: "The public key of the machine's WireGuard device."},
		{Path: "status.wireguard.port", Type: TypeInt, Owner: LoopWireGuard,
			Doc: "The UDP port at which the device takes packets."},
		{Path: "status.wireguard.device", Type: TypeString, Owner: LoopWireGuard,
			Doc: "Whose the device is: the kernel's (kernel), or the peer's (process)."},
		{Path: "status.wireguard.mtu", Type: TypeInt, Unit: "bytes", Owner: LoopWireGuard,
			Doc: "The largest packet that the tunnels carry."},
		{Path: "status.ready", Type: TypeBool, Owner: LoopReadiness,
			Doc: "Whether the machine can take pods."},
	},
	Groups: []Group{
		{Path: "spec", Doc: "What is wanted. People write it."},
		{Path: "spec.labels", Doc: "What the machine is or has, for pods to ask for."},
		{Path: "spec.labels.*", Key: KeyLabel},
		{Path: "spec.reserve", Doc: "What is kept from pods."},
		{Path: "lifecycle", Doc: "Which point of its lifecycle the machine is to be at."},
		{Path: "status", Doc: "What is. Loops write it, each its own fields."},
		{Path: "status.capacity", Doc: "What the machine has."},
		{Path: "status.listening", Doc: "Programs on ports that pods want of a machine, a map by port."},
		{Path: "status.listening.*", Key: KeyName},
		{Path: "status.wireguard", Doc: "The machine's WireGuard device, if it has one."},
	},
	Steps: []Step{{"ready", LoopReadiness}},
}
