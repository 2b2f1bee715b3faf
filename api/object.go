package api

import (
	"fmt"
	"strings"
)

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

// ParseKey reads "pod/web", "pod/shop/web" or "machine/m1". The kind may be
// written in any case and in the plural. A lone name is taken as a pod.
func ParseKey(s string) (Key, error) {
	parts := strings.Split(s, "/")
	if len(parts) == 1 {
		parts = []string{"pod", parts[0]}
	}
	kind, ok := KindByName(parts[0])
	if !ok {
		return Key{}, fmt.Errorf("%q: there is no kind %q; the kinds are %s", s, parts[0], strings.Join(KindNames(), ", "))
	}
	key := Key{Kind: kind.Name, Name: parts[len(parts)-1]}
	if kind.Namespaced {
		key.Namespace = DefaultNamespace
	}
	switch {
	case len(parts) == 3 && kind.Namespaced:
		key.Namespace = parts[1]
	case len(parts) != 2:
		return Key{}, fmt.Errorf("%q: write an object as KIND/NAME or KIND/NAMESPACE/NAME", s)
	}
	if key.Name == "" || (kind.Namespaced && key.Namespace == "") {
		return Key{}, fmt.Errorf("%q: the name is empty", s)
	}
	return key, nil
}

// Fields maps a full dotted path ("spec.containers.app.image") to the canonical
// JSON text of its value: a string, an integer, a boolean, null or a list.
// A map is never a value: its members are fields of their own, which is how
// maps merge by key and lists replace as a whole. A path segment that holds a
// dot or a quote is written as a JSON string: `spec.require."example.com/disk"`.
type Fields map[string]string
