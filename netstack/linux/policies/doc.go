// Package policies makes a machine's nftables enforce a plan of package netstack/policy.
//
// All of it is one table of its own, "ip6 starling-policy", which is there only while
// there is something to enforce:
//
//	map pods        a pod's address here : jump to its namespace's chain
//	set self        address . address: what a pod sends to itself through a service
//	sets from/N/A, to/N/A, ports/N/A      one of each for the Allow A of namespace N
//	chain forward   connections that are open go on; then the chains of both ends
//	chain ns/N      one rule per Allow that returns; the rest is refused
//
// A plan is written whole, in one transaction, so that there is no moment without rules,
// and only if it is another than what the kernel holds. It concerns new connections:
// those that were let through go on until they end.
package policies
