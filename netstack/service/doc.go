// Package service says which pods stand behind which service, and what a machine's
// tables should hold for it. It touches nothing.
//
// A [Directory] is what a peer knows of pods, services and machines by name and by
// address. It is told what changed, keeps each service resolved to its endpoints, and
// tells which services are different from before, so that the cost of a change does not
// grow with the number of services. Names (package dns) are answered from it.
//
// [Service.Forwards] makes a service's part of the machine's table, one line per port that
// has endpoints. It prints much as nft(8) would, and tests compare those lines. Package
// netstack/linux/services makes the kernel agree.
package service
