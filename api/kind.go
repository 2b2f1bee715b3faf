package api

// Owner names of fields. A field without a declared owner is writable by people
// only; every other owner is the name of a loop, or OwnerParent.
const (
	People = ""
	// OwnerParent is whichever loop made the object: it wrote down whose child that is.
	OwnerParent = "parent"
)

// Field is one row of a kind's table.
type Field struct {
	// Path is dotted; "*" stands for one key of a map:
	// "spec.containers.*.image".
	Path string
	// Type is one of the Type… constants.
	Type Type
	// Owner is the one writer of the field: People, or a loop's name.
	Owner string
	// Unit is printed beside the value: "cores", "bytes", "seconds"; may be empty.
	Unit string
	// Default is the canonical JSON value that reading shows when nothing was
	// written; empty for none. It is computed on reading and never stored.
	Default string
	// Required fields must be present in a spec (under their parent map's key).
	Required bool
	// Enum, when not empty, lists the allowed strings.
	Enum []string
	// Computed describes a default that depends on other fields, for people; the
	// rule itself is in defaults.go.
	Computed string
	// Doc is one or two full sentences for `peer explain` and the reference.
	Doc string
}

// Type says how a field's value is written and checked.
type Type string

// The types of fields.
const (
	TypeString   Type = "string"
	TypeInt      Type = "integer"
	TypeBool     Type = "boolean"
	TypeStrings  Type = "list of strings"
	TypeCPU      Type = "cpu"      // "500m", "2": thousandths of a core
	TypeBytes    Type = "bytes"    // "64Mi", "1G"
	TypeDuration Type = "duration" // "10s", "5m"
	TypePort     Type = "port"     // 1..65535
	TypeTime     Type = "time"     // RFC 3339 in UTC
	TypeJSON     Type = "value"    // any list or scalar, written by loops
)

// Group documents a path that has fields below it, and names the rule for the
// keys of a map.
type Group struct {
	// Path is dotted, as in Field. For a map it ends in "*".
	Path string
	Doc  string
	// Key is the rule for the keys that "*" stands for; only for maps.
	Key KeyRule
}

// KeyRule says which keys a map takes.
type KeyRule string

// The rules for keys of maps.
const (
	KeyName  KeyRule = "name"             // an RFC 1123 label: a-z, 0-9 and -, at most 63
	KeyLabel KeyRule = "label"            // a name, or "example.com/name"
	KeyEnv   KeyRule = "environment name" // anything without "=", NUL or space
	KeyProbe KeyRule = "probe"            // startup, readiness or liveness
	KeyField KeyRule = "field"            // the path of a field, with * for a key of a map
)

// Step says which loop runs a step of the kind's lifecycle where the step's name
// is not the loop's.
type Step struct {
	Name, Owner string
}

// Kind is the one table of a kind of object.
type Kind struct {
	Name       string // "Pod"
	Plural     string // "pods"
	Namespaced bool
	Doc        string
	Fields     []Field
	Groups     []Group
	Steps      []Step
	// Children is the kind of the objects that an object of this kind is made of, and
	// Parent the loop that makes them and owns their specs. Both are empty for a kind
	// that stands alone.
	Children string
	Parent   string
	// Columns are the fields that a list of objects shows, by their paths.
	Columns []string
	// Own: people defined the kind, with a Kind object.
	Own bool
}

// builtinKinds is sorted by name and never changed.
var builtinKinds = []Kind{allowKind, kindKind, machineKind, pinnedKind, podKind, poolKind, serviceKind, siteKind, stepKind, targetKind}

// Kinds returns the table of every built-in kind, sorted by name. The caller
// must not change it.
func Kinds() []Kind { return builtinKinds }

// KindByName finds a built-in kind by its name or plural, in any case.
func KindByName(s string) (Kind, bool) { return Builtin().KindByName(s) }
