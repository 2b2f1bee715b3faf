// Package dns answers a machine's pods for names. Every machine answers from its own copy
// of the state, so that names work while it is cut off, and no other machine is asked.
//
//	NAME.NAMESPACE.pod.cluster         the pod's address
//	NAME.NAMESPACE.svc.cluster         the service's address; without one, the addresses
//	                                   of its ready pods
//	_PORT._PROTOCOL.NAME.NAMESPACE.svc.cluster    where the port is (SRV)
//	MACHINE.machine.cluster            the machine's address in the cluster
//	the reverse of each of these addresses        its name (PTR)
//
// All of them have IPv6 addresses only. While the copy is not known to be complete, what
// is in it is answered, and for what is not the answer is that the server failed: "no such
// name" is said only of names that don't exist.
//
// Everything else is passed on to the machine's own resolvers, with a small cache; to pods
// that reach IPv4 by translation, names without IPv6 addresses are answered by package
// dns64. Nobody but the cluster is answered.
package dns
