// Package netstack says what a machine's network should be, and touches nothing.
//
// A cluster has one IPv6 prefix (/48, RFC 4193), each machine a /96 of it, and each
// pod one address for life ([ClusterPrefix], [MachinePrefix], [RandomAddress]). All
// three follow from identities and chance, so nothing is coordinated.
//
// A [Plan] is the desired state of our own things in one network namespace: sysctls,
// links, addresses, routes and one nftables table. [PodPlan] makes the two plans of a
// pod (its own namespace, and the machine's end of its link), [MachinePlan] the
// machine's. A plan prints one line per thing, and tests compare those lines.
//
// Package netstack/linux makes the kernel agree with a plan. This package is pure: it
// does no I/O, reads no clock and draws nothing by itself.
package netstack
