// Package hostports makes ports of a machine lead to its pods, and those of IPv4 addresses of
// load balancers to the machine's NAT64.
//
// All of it is one table of its own, "inet starling-ports", which is there only while a
// pod of the machine has a host port, or the machine answers for such an address:
//
//	map at4     address . protocol . port : what the NAT64 takes for the address . port
//	map to4     protocol . port : an IPv4 address that leads to the pod . port
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
