// Package api holds the nouns of Starling: kinds, their fields and the owner of
// each field, validation, defaults, YAML, and the error codes that people see.
//
// An object is a [Key] and a flat map of [Fields]: dotted path to canonical JSON
// value. Everything else that a user meets is computed from one table per kind
// ([Kind]): which fields exist, of which type and unit, who may write each, its
// default on reading, and its documentation. Defaults are never stored.
//
// The tables are in pod.go, pod_fields.go and machine.go; [OwnerOf] and [StepOwner] say
// who may write what. [ParseYAML] reads what people hand in, [Normalize] is the door
// that it and every other input goes through, and [Validate] judges merges by the same
// rules. [Effective] fills in defaults; [DecodePod] and [DecodeMachine] give loops
// structs with all units parsed. [Render] and [MarshalObject] write objects, [Explain]
// and [Reference] their manual. errors.go holds the codes of all errors.
//
// Every value has one canonical form ([Canonical]), so that equal objects are equal
// bytes: members sorted, whole numbers only, amounts in their shortest unit.
//
// The package is pure: it does no I/O and reads no clock.
package api
