// Package heap says how large the memory of a peer may become before it is collected.
//
// A collection goes through all that is in use, however little has become garbage. By
// itself the runtime collects whenever as much was allocated as is in use: for a peer with
// few objects that is many times a second while much is written. [Pace] lets a small heap
// grow further as long as that goes on. What is unused later is given back (package daemon).
package heap
