package loops

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// named gives the children that a foreign loop asks for their names.
func named(err error, s api.HookedSpec, in lifecycle.Inputs) error {
	owns := (*lifecycle.Owns)(nil)
	if !errors.As(err, &owns) {
		return err
	}
	if s.Children == "" {
		return fmt.Errorf("loop %s asks for children, and step %s declares no kind of them in spec.children", s.Loop, s.Step)
	}
	for i := range owns.Children {
		c := &owns.Children[i]
		c.Key = ForeignChild(s.Children, in.Key, in.ID, s.Loop, c.Slot)
		c.Note = "for " + in.Key.String()
	}
	return owns
}

// ForeignChild is the key of a child that a foreign loop makes. It derives from the parent,
// the parent's identity, the loop and the slot: whoever makes it makes this one.
func ForeignChild(kind string, parent api.Key, id, loop string, slot int) api.Key {
	tail := fmt.Sprintf("-%s-%s-%d", id[:6], loop, slot)
	name := parent.Name[:min(len(parent.Name), max(1, 63-len(tail)))]
	key := api.Key{Kind: kind, Namespace: parent.Namespace, Name: strings.TrimRight(name, "-") + tail}
	if key.Namespace == "" {
		key.Namespace = api.DefaultNamespace
	}
	return key
}

// DeriveForeign adds what the steps of foreign loops read of their children, below
// "children.LOOP.SLOT.": name, state, and for a pod its address and machine.
func DeriveForeign(o *lifecycle.Object, v Surroundings, loop string, into api.Fields) {
	for _, c := range v.Children(o, loop) {
		at := api.Join("children", loop, strconv.FormatInt(c.Object.Fields.Int("spec.parent.slot"), 10))
		into[at+".name"] = api.Str(c.Object.Key.Name)
		into[at+".state"] = api.Str(standing(c))
		for _, field := range []string{"address", "machine"} {
			if v, ok := c.Object.Field("status." + field); ok {
				into[at+"."+field] = v
			}
		}
	}
}
