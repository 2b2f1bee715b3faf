// Package site is a machine's way in for HTTP: it takes requests by their host and path to
// the pods of services. Every machine does so, at ports 80 and 443, while there is a site.
//
// The proxy is net/http/httputil's, which passes WebSockets and other upgrades on. Clients
// speak HTTP/1.1 or HTTP/2; pods are spoken to in HTTP/1.1, or in HTTP/2 without TLS where a
// route says so (for gRPC). A request that no pod took is given to another pod, as long as
// it is certain that nothing was done twice.
//
// Reading order: types.go, server.go (the ports), handler.go (from a request to a route),
// pods.go (from a route to a pod), certificates.go.
package site
