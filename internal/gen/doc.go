// Gen generates the code that is made from other files: the wire API's Go code from
// api/v1/starling.proto, and the eBPF object netstack/fastpath/nat64.o from the C below
// it. Its output is committed, so that building takes Go alone; the
// package's test fails when the two differ.
package main
