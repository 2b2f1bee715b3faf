// Package client speaks to a peer over its Unix socket: which socket is meant, how to
// dial it, and what an answer's error says to a person. Package client/text prints the
// answers.
//
// A client is one peer's: it sees the cluster as that peer does, and changes it through
// that peer. It holds no state and retries nothing.
package client
