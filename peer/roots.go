package peer

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
)

// keptRevs is how many revs of an object, the current one included, keep what they ran
// with: a rollback to any of them pulls nothing.
const keptRevs = 2

// Roots are what an object needs beyond itself. Whatever collects anything asks for them,
// and for nothing else.
type Roots struct {
	// Images are the references in the specs of the kept revs.
	Images []string
	// Digests are of the images that its containers were made from.
	Digests []string
}

// Placed lists the objects that are placed on this machine, sorted.
func (c *Core) Placed() []api.Key {
	var keys []api.Key
	for _, t := range c.engine.placed.sorted(c.self.Name) {
		keys = append(keys, api.Key(t.ref))
	}
	return keys
}

// Roots returns what an object needs on this machine: nothing unless it runs here.
func (c *Core) Roots(key api.Key) Roots {
	seen, ok := c.See(key)
	if !ok || key.Kind != "Pod" {
		return Roots{}
	}
	status := seen.Object.Status()
	if status.String("status.machine") != c.self.Name {
		return Roots{}
	}
	var r Roots
	for _, container := range status.Keys("status.images") {
		r.Digests = append(r.Digests, status.String("status.images."+container))
	}
	for _, rev := range lastRevs(seen.Folded, keptRevs) {
		r.Images = append(r.Images, imagesAt(seen.Folded, rev)...)
	}
	slices.Sort(r.Images)
	r.Images = slices.Compact(r.Images)
	return r
}

// lastRevs returns the revs with the highest numbers that count. Of concurrent revs, which
// share a number, each counts.
func lastRevs(o *crdt.Object, count int) []crdt.Rev {
	revs := slices.DeleteFunc(o.Revs(), func(r crdt.Rev) bool { return !r.IsRev || r.Refused != "" })
	slices.SortStableFunc(revs, func(a, b crdt.Rev) int { return cmp.Compare(b.Number, a.Number) })
	numbers := 0
	for i, r := range revs {
		if i == 0 || r.Number != revs[i-1].Number {
			numbers++
		}
		if numbers > count {
			return revs[:i]
		}
	}
	return revs
}

func imagesAt(o *crdt.Object, rev crdt.Rev) []string {
	spec, err := o.SpecAt(rev.Change)
	if err != nil {
		return nil // a rev of another incarnation, which has its own pods
	}
	var images []string
	for path, value := range spec {
		var image string
		rest, isContainer := strings.CutPrefix(path, "spec.containers.")
		if !isContainer || !strings.HasSuffix(rest, ".image") || json.Unmarshal([]byte(value), &image) != nil {
			continue
		}
		images = append(images, image)
	}
	slices.Sort(images)
	return images
}
