// Package hostports makes ports of a machine lead to its pods.
//
// All of it is one table of its own, "inet starling-ports", which is there only while a
// pod of the machine has a host port:
//
//	map to4     protocol . port : pod's IPv4 address . port
//	map to6     protocol . port : pod's IPv6 address . port
//	set self    address . address    each pod, as source and as destination
//	chain prerouting, output     if it is for an address of the machine, dnat
//	chain postrouting            a pod that reaches itself is answered by the machine
//
// Addresses of the cluster (the machine's own, and those of services) and the loopback
// are left alone, whatever listens there.
//
// The table is written whole, in one transaction, and only if it is another than what the
// kernel holds. [Listeners] tells which ports other programs have.
package hostports
