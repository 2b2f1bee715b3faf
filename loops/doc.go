// Package loops holds the built-in control loops, one file each: what a pod and a
// machine go through, declared as steps. A file reads like a declaration; what a
// step does to the machine goes through the small interfaces of [Host], which
// oci and netstack implement for real and sim implements in virtual time.
package loops
