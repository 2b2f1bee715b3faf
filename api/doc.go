// Package api holds the nouns of Starling: kinds, their fields and the owner of
// each field, validation, defaults, YAML, and the error codes that people see.
//
// An object is a [Key] and a flat map of [Fields]: dotted path to canonical JSON
// value. Everything else that a user meets is computed from one table per kind
// ([Kind]): which fields exist, of which type and unit, who may write each, its
// default on reading, and its documentation. Defaults are never stored.
//
// The package is pure: it does no I/O and reads no clock.
package api
