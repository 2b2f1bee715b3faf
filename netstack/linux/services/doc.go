// Package services makes a machine's nftables spread connections to services over their
// pods, as the forwards of package netstack/service say.
//
// All of it is one table of its own, "ip6 starling-services":
//
//	set any-2         address . protocol . port              one element per port
//	set client-2      the same, for services with affinity
//	map endpoints-0   address . protocol . port : pod's address . port
//	map endpoints-1   …                                      one map per endpoint's number
//	set hairpin       address . address                      one element per pod here
//	chain prerouting, output    if it is for a service,
//	chain classes               find the set that it is in, and go to the chain
//	chain any-2                 draw a number below 2, and go to its chain
//	chain client-2              the same, with a hash of the client's address
//	chain number-0, number-1    look the endpoint up, dnat
//	chain input                 refuse what no pod stands behind
//	chain postrouting           a pod that reaches itself is answered by the machine
//
// A change of a service adds and removes elements of maps and nothing else, so its cost
// is that of its endpoints, whatever the number of services ([Table.Update]). (A chain per
// service, with a verdict in the map, would be the obvious way. But the kernel walks all
// verdicts of all maps, and the chains behind them, whenever one is added.)
//
// [Table.Sync] compares all of it with the kernel, writes what differs and nothing else,
// and so adopts what an earlier run left and repairs what somebody flushed.
//
// The kernel remembers for each connection which pod it goes to, so changes concern new
// connections only; [Table.Forget] makes it forget what led to a pod that is gone.
package services
