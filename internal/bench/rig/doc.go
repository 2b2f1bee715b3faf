// Package rig is a peer without containers, network and membership, for measuring:
// the production loop and core over a real store in Badger, the API on a Unix socket,
// and streams over real sockets. Its host does at once whatever a step asks for.
//
// A rig is opened on a directory and belongs to a cluster whose keys derive from the
// machines' names, so that several rigs, and processes, make up one cluster. [Fill]
// puts many objects into a directory.
package rig
