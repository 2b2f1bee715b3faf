package loops

import "starling.dev/starling/netstack"

// withNames lets the pod ask its own machine for names.
func withNames(pod PodSandbox, h Host) PodSandbox {
	pod.Resolv = netstack.Resolv(netstack.MachineAddress(h.Facts().OwnPrefix()), pod.Namespace)
	return pod
}
