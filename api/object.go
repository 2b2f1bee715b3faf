package api

import "strings"

// DefaultNamespace is where an object lives when its spec names no namespace.
const DefaultNamespace = "default"

// Key names an object. Namespace is empty for kinds that are not namespaced
// (Machine). Names are compared byte for byte.
type Key struct {
	Kind, Namespace, Name string
}

// String prints the key as a person would type it: "pod/web" in the default
// namespace, "pod/shop/web" elsewhere, "machine/m1" for a kind without namespaces.
func (k Key) String() string {
	kind := strings.ToLower(k.Kind)
	if k.Namespace == "" || k.Namespace == DefaultNamespace {
		return kind + "/" + k.Name
	}
	return kind + "/" + k.Namespace + "/" + k.Name
}

// Compare orders keys by kind, namespace and name.
func (k Key) Compare(o Key) int {
	if c := strings.Compare(k.Kind, o.Kind); c != 0 {
		return c
	}
	if c := strings.Compare(k.Namespace, o.Namespace); c != 0 {
		return c
	}
	return strings.Compare(k.Name, o.Name)
}

// ParseKey reads the key of an object of a built-in kind; see [Catalog.ParseKey].
func ParseKey(s string) (Key, error) { return Builtin().ParseKey(s) }

// KeyFromString is the reverse of [Key.String], for keys that programs wrote. It needs no
// catalog: how the kind of a Kind object is spelled follows from that object's name.
func KeyFromString(s string) (Key, error) {
	parts := strings.Split(s, "/")
	if kind := OwnKind(parts[0]); kind != "" && len(parts) > 1 {
		if _, known := KindByName(parts[0]); !known {
			return (&Catalog{kinds: []Kind{{Name: kind, Namespaced: true}}}).ParseKey(s)
		}
	}
	return ParseKey(s)
}

// Fields maps a full dotted path ("spec.containers.app.image") to the canonical
// JSON text of its value: a string, an integer, a boolean, null or a list.
// A map is never a value: its members are fields of their own, which is how
// maps merge by key and lists replace as a whole. A path segment that holds a
// dot or a quote is written as a JSON string: `spec.require."example.com/disk"`.
type Fields map[string]string
