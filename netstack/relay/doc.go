// Package relay takes connections at IPv4 addresses and carries them to pods, which have
// IPv6 addresses only: for load balancers, and for host ports of pods without IPv4.
//
// TCP connections are spliced, each by a goroutine in either direction; a pod that does not
// take one is passed over. UDP packets of one client go to one pod until they cease. The
// pod sees the machine's address as the client's.
package relay
