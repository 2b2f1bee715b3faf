// Package storetest says what a disk has to promise to the core, as tests that
// every disk passes: the real one in package store, and the simulated one.
package storetest
