// Package wireguard keeps a machine's WireGuard device and its tunnels to other
// machines. Where the kernel has WireGuard, the device is the kernel's; elsewhere it is
// wireguard-go's, in this process.
//
// A [Device] is given what it should be (on or off, and its peers) and makes it so, as
// often as it is asked. A peer's endpoint is where its machine says that it is, until a
// packet of it comes from somewhere else: WireGuard then answers there, so that a
// machine behind a NAT is reached once it has spoken, and every machine speaks to its
// peers each 25 seconds. An endpoint that was learned is left alone as long as the
// tunnel works.
//
// The kernel's device outlives the process, and is adopted again; the other one goes
// with it, and its tunnels are back within seconds of the next start.
//
// Each end tells when it last heard the other. Package server compares what both say, and
// names the side that hears nothing.
//
// Reading order: config.go, device.go, peers.go, then kernel.go and process.go (the two
// kinds of device).
package wireguard
