// Package nft keeps tables of our own in the kernel's nftables as they are wanted ([Mirror]),
// and reads what github.com/google/nftables does not: all rules of a table with one request
// (one per chain would take a second for ten thousand chains), and elements whatever they
// hold.
package nft
