// Package rules judges objects of people's own kinds by the rules of their Kind:
// expressions in CEL (https://cel.dev) that are true for what is valid.
//
// Every peer comes to the same answer. The environment belongs to the level of the cluster
// and holds CEL's standard functions only; what could differ from machine to machine is
// refused when a rule is compiled: fractions, and times in named zones. Maps are walked in
// the order of their keys, the cost of one evaluation is bounded, and an evaluation that
// fails counts as a rule that is broken.
package rules
