// Command bench measures Starling beside others and beside its targets, and prints
// one table: `go run ./internal/bench [PART…]`. Without an argument it runs every part.
package main
