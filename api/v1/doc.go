// Package apiv1 is the wire API of a peer: messages generated from starling.proto, and
// the few names that such a file can't hold. The service itself, for clients and for
// servers, is in package apiv1connect.
package apiv1
