package text

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

// ObjectYAML writes an object as YAML that can be edited and applied; what loops wrote
// stands below it in comments.
func ObjectYAML(o *apiv1.Object) string {
	all := api.Fields(o.GetFields()).Clone()
	maps.Copy(all, o.GetStatus())
	head := "# rev " + o.GetRev()
	for _, part := range []string{o.GetVerdict(), o.GetPhase()} {
		if part != "" {
			head += ", " + part
		}
	}
	return head + "\n" + string(api.Render(client.KeyOf(o.GetKey()), all))
}

// ObjectsYAML writes a document for each object.
func ObjectsYAML(list []*apiv1.Object) string {
	docs := make([]string, len(list))
	for i, o := range list {
		docs[i] = ObjectYAML(o)
	}
	return strings.Join(docs, "---\n")
}

// ObjectsJSON writes objects as a JSON list, each with its fields nested.
func ObjectsJSON(list []*apiv1.Object) (string, error) {
	trees := make([]map[string]any, len(list))
	for i, o := range list {
		trees[i] = objectTree(o)
	}
	return marshal(trees)
}

// ObjectJSON writes one object.
func ObjectJSON(o *apiv1.Object) (string, error) { return marshal(objectTree(o)) }

// objectTree is an object as programs read it. Its own members stand beside spec,
// lifecycle and status, and are left out where they say nothing.
func objectTree(o *apiv1.Object) map[string]any {
	all := api.Fields(o.GetFields()).Clone()
	maps.Copy(all, o.GetStatus())
	tree := api.ToTree(all)
	put := func(name, value string) {
		if value != "" {
			tree[name] = value
		}
	}
	put("kind", o.GetKey().GetKind())
	put("namespace", o.GetKey().GetNamespace())
	put("name", o.GetKey().GetName())
	put("id", o.GetId())
	put("rev", o.GetRev())
	put("verdict", o.GetVerdict())
	put("phase", o.GetPhase())
	put("creator", o.GetCreator())
	if ms := o.GetCreatedMs(); ms != 0 {
		put("created", time.UnixMilli(ms).UTC().Format(time.RFC3339))
	}
	if o.GetDeleting() {
		tree["deleting"] = true
	}
	if len(o.GetConflicts()) > 0 {
		conflicts := map[string][]string{}
		for _, c := range o.GetConflicts() {
			conflicts[c.GetPath()] = c.GetClaims()
		}
		tree["conflicts"] = conflicts
	}
	return tree
}

func marshal(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return "", fmt.Errorf("write JSON: %w", err)
	}
	return b.String(), nil
}

// MessageJSON writes an answer as it is on the wire, in the mapping of protocol buffers
// to JSON. The spaces, which that mapping varies on purpose, are made regular.
// Objects in a status are written as `peer get` writes them, so that nobody has to learn
// two forms.
func MessageJSON(m proto.Message) (string, error) {
	if st, ok := m.(*apiv1.StatusResponse); ok {
		return statusJSON(st)
	}
	raw, err := protojson.Marshal(m)
	if err != nil {
		return "", fmt.Errorf("write JSON: %w", err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return "", fmt.Errorf("write JSON: %w", err)
	}
	return b.String() + "\n", nil
}

// MessageLine writes an answer as MessageJSON does, in one line.
func MessageLine(m proto.Message) (string, error) {
	text, err := MessageJSON(m)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		return "", fmt.Errorf("write JSON: %w", err)
	}
	return b.String() + "\n", nil
}

func statusJSON(m *apiv1.StatusResponse) (string, error) {
	rest := proto.CloneOf(m)
	rest.Objects = nil
	out, err := messageTree(rest)
	if err != nil {
		return "", err
	}
	states := []map[string]any{}
	for _, o := range m.GetObjects() {
		state := proto.CloneOf(o)
		state.Object = nil
		tree, err := messageTree(state)
		if err != nil {
			return "", err
		}
		tree["object"] = objectTree(o.GetObject())
		states = append(states, tree)
	}
	out["objects"] = states
	return marshal(out)
}

func messageTree(m proto.Message) (map[string]any, error) {
	raw, err := protojson.Marshal(m)
	tree := map[string]any{}
	if err == nil {
		err = json.Unmarshal(raw, &tree)
	}
	if err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return tree, nil
}

// MessageYAML writes an answer as MessageJSON does, in YAML.
func MessageYAML(m proto.Message) (string, error) {
	text, err := MessageJSON(m)
	if err != nil {
		return "", err
	}
	out, err := yaml.JSONToYAML([]byte(text))
	if err != nil {
		return "", fmt.Errorf("write YAML: %w", err)
	}
	return string(out), nil
}
