package api

// The loops of a pod, by the names that own its fields.
const (
	LoopScheduler = "scheduler"
	LoopAdmission = "admission"
	LoopImage     = "image"
	LoopAddress   = "address"
	LoopNetwork   = "network"
	LoopVolume    = "volume"
	LoopContainer = "container"
	LoopReadiness = "readiness"
	LoopObjects   = "objects"
)

// Values of spec.restart.
const (
	RestartAlways    = "always"
	RestartOnFailure = "on-failure"
	RestartNever     = "never"
)

// Values of spec.partition.
const (
	PartitionReplace = "replace"
	PartitionPinned  = "pinned"
	PartitionLeased  = "leased"
)

// Values of lifecycle.target.
const (
	TargetRunning = "running"
	TargetStopped = "stopped"
	TargetReady   = "ready"
	TargetDrained = "drained"
)

// switchModes are the values of lifecycle.mode.
var switchModes = []string{"replace", "irreversible"}

// Values of spec.network.ipv4.
const (
	IPv4Masquerade = "masquerade"
	IPv4CLAT       = "clat"
	IPv4None       = "none"
)

// The probes of a container.
const (
	ProbeStartup   = "startup"
	ProbeReadiness = "readiness"
	ProbeLiveness  = "liveness"
)

// VolumeDirectory is a volume that is a directory of the pod's machine.
const VolumeDirectory = "directory"

var podKind = Kind{
	Name: "Pod", Plural: "pods", Namespaced: true,
	Doc: "A pod is a set of containers that share one machine, one network namespace and one IPv6 address. " +
		"A change of its spec re-runs only the steps that read what changed; most changes restart it in place.",
	Fields: podFields,
	Groups: podGroups,
	Steps: []Step{
		{"schedule", LoopScheduler},
		{"admit", LoopAdmission},
		{"storage", LoopVolume},
		{"objects", LoopObjects},
		{"running", LoopContainer},
		{"ready", LoopReadiness},
	},
}

var podGroups = []Group{
	{Path: "spec", Doc: "What is wanted. People write it; of a pod that has a parent, the parent's loop does."},
	{Path: "spec.containers", Doc: "The pod's containers, a map by name; at least one."},
	{Path: "spec.containers.*", Key: KeyName, Doc: "One container. All containers of a pod share its address, so their ports differ."},
	{Path: "spec.containers.*.env", Doc: "Environment variables, a map by name."},
	{Path: "spec.containers.*.env.*", Key: KeyEnv},
	{Path: "spec.containers.*.ports", Doc: "The ports that the container listens on, a map by name."},
	{Path: "spec.containers.*.ports.*", Key: KeyName},
	{Path: "spec.containers.*.hostPorts", Doc: "Ports of the machine that lead to the container, a map by the name of one of its ports."},
	{Path: "spec.containers.*.hostPorts.*", Key: KeyName},
	{Path: "spec.containers.*.resources", Doc: "What the container may use. The machine keeps as much free for it."},
	{Path: "spec.containers.*.mounts", Doc: "Where the pod's volumes appear in the container, a map by the volume's name."},
	{Path: "spec.containers.*.mounts.*", Key: KeyName, Doc: "One volume of spec.volumes."},
	{Path: "spec.containers.*.probes", Doc: "How the container is asked how it is, by its machine. Answers are not recorded; a change of the pod's readiness is."},
	{Path: "spec.containers.*.probes.*", Key: KeyProbe, Doc: "startup holds the other two back until it passes once, and has the container restarted if it never does; readiness decides status.ready; a failing liveness probe has the container restarted. Each has exactly one of http, tcp, grpc and exec."},
	{Path: "spec.require", Doc: "Labels that the machine must have, each with the same value."},
	{Path: "spec.require.*", Key: KeyLabel},
	{Path: "spec.objects", Doc: "Other objects that the pod depends on, by their keys, as in pod/db or service/shop/cache."},
	{Path: "spec.stop", Doc: "How the pod's containers are asked to end."},
	{Path: "spec.network", Doc: "The pod's place in the network. It always has one IPv6 address."},
	{Path: "spec.network.interfaces", Doc: "Further links of the pod, into networks that its machine is on, a map by the link's name in the pod. They are outside of the cluster's network: no Allow, Service or name concerns them."},
	{Path: "spec.network.interfaces.*", Key: KeyName, Doc: "One link, with a link-layer address that the pod keeps. eth0 is the pod's way into the cluster and always there."},
	{Path: "spec.network.routes", Doc: "What the pod reaches by its further links, beside the prefixes of their addresses; a map by any name."},
	{Path: "spec.network.routes.*", Key: KeyName, Doc: "One route."},
	{Path: "spec.volumes", Doc: "Storage that outlives the pod's containers, a map by name."},
	{Path: "spec.volumes.*", Key: KeyName, Doc: "One volume. It is kept for 24 hours after the pod is deleted."},
	{Path: "spec.labels", Doc: "Labels by which people find the pod; nothing is wired by them."},
	{Path: "spec.labels.*", Key: KeyLabel},
	{Path: "spec.parent", Doc: "What the pod belongs to, written once by the loop that made it."},
	{Path: "lifecycle", Doc: "Which point of its lifecycle the pod is to be at."},
	{Path: "status", Doc: "What is. Loops write it, each its own fields."},
	{Path: "status.refused", Doc: "Why machines could not take the pod when it was last placed, a map by machine."},
	{Path: "status.refused.*", Key: KeyName},
	{Path: "status.refusals", Doc: "Machines that refused the pod against their own reservations, a map by machine."},
	{Path: "status.refusals.*", Key: KeyName},
	{Path: "status.admission", Doc: "What its machine reserved for the pod."},
	{Path: "status.images", Doc: "The images that the pod runs, a map by container."},
	{Path: "status.images.*", Key: KeyName},
	{Path: "status.objects", Doc: "What the pod requires of other objects."},
	{Path: "status.network", Doc: "What was made on the machine to connect the pod."},
	{Path: "status.network.hostPorts", Doc: "The ports of the machine that lead to the pod, a map by name."},
	{Path: "status.network.hostPorts.*", Key: KeyName},
	{Path: "status.volumes", Doc: "Where the pod's volumes are on its machine, a map by volume."},
	{Path: "status.volumes.*", Key: KeyName},
	{Path: "status.containers", Doc: "The containers as they are, a map by name."},
	{Path: "status.containers.*", Key: KeyName, Doc: "One container as it is."},
}
