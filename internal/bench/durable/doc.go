// Package durable measures durable writes side by side with etcd: the same disk,
// the same number of clients, the same bytes, in one run.
//
// Each client writes one value after the other and waits for each to be
// acknowledged. [Measure] drives any function that does so; [StartEtcd] gives one
// for a single etcd on loopback; [Compare] runs rounds of both in turn and
// reports medians and ratios.
package durable
