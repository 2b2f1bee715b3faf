package api

import (
	"encoding/json"
	"fmt"
)

// ToTree nests fields into maps, as JSON and YAML show them. Whole numbers are
// json.Number, so that none is rounded. A value that is not JSON is shown as text.
func ToTree(f Fields) map[string]any {
	root := map[string]any{}
	for _, path := range f.Paths() {
		segments, err := Split(path)
		if err != nil {
			segments = []string{path}
		}
		v, err := decodeJSON(f[path])
		if err != nil {
			v = f[path]
		}
		put(root, segments, v)
	}
	return root
}

// put stores a value below a tree; where a value stands in the way of a map, the map
// takes its place. Valid fields have no such paths.
func put(tree map[string]any, segments []string, v any) {
	for _, seg := range segments[:len(segments)-1] {
		next, ok := tree[seg].(map[string]any)
		if !ok {
			next = map[string]any{}
			tree[seg] = next
		}
		tree = next
	}
	tree[segments[len(segments)-1]] = v
}

// FromTree is the reverse of ToTree. An empty map becomes the value {}, which
// Normalize leaves out or refuses.
func FromTree(tree map[string]any) (Fields, error) {
	f := Fields{}
	return f, f.flatten("", tree)
}

func (f Fields) flatten(path string, v any) error {
	if m, ok := v.(map[string]any); ok && len(m) > 0 {
		for key, member := range m {
			if err := f.flatten(Child(path, key), member); err != nil {
				return err
			}
		}
		return nil
	}
	if path == "" {
		return nil // an empty tree
	}
	text, err := encodeValue(v)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	f[path] = text
	return nil
}

// MarshalObject writes an object as JSON, indented: kind, namespace, name and its
// fields nested.
func MarshalObject(k Key, f Fields) ([]byte, error) {
	tree := ToTree(f)
	tree["kind"], tree["name"] = k.Kind, k.Name
	if k.Namespace != "" {
		tree["namespace"] = k.Namespace
	}
	data, err := json.MarshalIndent(tree, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write %s as JSON: %w", k, err)
	}
	return data, nil
}
