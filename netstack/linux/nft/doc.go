// Package nft reads from the kernel's nftables what github.com/google/nftables does not:
// all rules of a table with one request (one per chain would take a second for ten
// thousand chains), and elements whatever they hold.
package nft
