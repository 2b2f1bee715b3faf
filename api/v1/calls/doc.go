// Package calls carries the calls of the API that have one request and one answer over a
// connection of their own, in a fraction of the CPU time that HTTP/2 takes for them. What
// is called, and with which messages, is the service of package apiv1connect: streams, and
// clients in other languages, use that.
//
// A connection begins as HTTP/1.1 and leaves it by an upgrade to [Protocol]. Then each
// request is answered before the next is read: a client that wants more at once opens
// more connections. The end of a connection ends what is called on it.
//
// A frame is a length (4 bytes, big endian, of what follows), a head, and a message as
// protobuf encodes it. The head of a request is the procedure's name, with its length in
// one byte before it. The head of an answer is one byte: 0, or the code of an error
// (connect.Code); then come the error's own code (package api), with its length in one
// byte before it, and its text, in place of a message.
package calls
