// Package lint holds the rules of this module that no compiler checks: who may import
// whom, what the deterministic core must not do, how long a file or a function may be,
// and what must not be left in the text. Its tests apply them to the whole module.
//
// Each rule is a function from a [Tree] to the problems that it finds, one line each, as
// "path:line: what is wrong and what to do".
package lint
