// Command peer is all of Starling: the daemon that every machine of a cluster runs, and
// the commands that people type.
//
// A command speaks to one peer through its Unix socket (package client), and prints the
// answer (package client/text). Each command has a file of its own; root.go lists them.
// What all of them share, the flags that name a peer and an author, is in cli.go, and
// the exit codes are in exit.go.
package main
