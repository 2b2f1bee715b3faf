package api

import (
	"slices"
	"strings"
)

// metaFields are the fields of a document beside those of the object.
var metaFields = []Field{
	{Path: "kind", Type: TypeString, Required: true, Doc: "What the object is."},
	{Path: "name", Type: TypeString, Required: true, Doc: "The object's name, unique in its namespace."},
	{Path: "namespace", Type: TypeString, Doc: "The namespace that the name is unique in; \"default\" where this is not given."},
	{Path: "note", Type: TypeString, Doc: "The author's note on this change; `peer history` shows it."},
}

// habits answers fields that other systems have.
var habits = map[string]string{
	"apiVersion": "there is no such field, and no need for it; leave it out",
	"metadata":   "there is no such field; write name, namespace and spec.labels themselves",
	"status":     "loops write the status; leave it out",
	"services":   "there is no such field; if this is a Compose file, `peer import FILE` says what it means in specs",
}

// spec turns the flat document into a Spec; its faults go to d.problems.
func (d *document) spec(c *Catalog) Spec {
	key, note, ok := d.meta(c)
	spec := Spec{Key: key, Note: note, Start: d.nearest("kind"), source: d}
	if !ok {
		return spec
	}
	if len(d.problems) == 0 {
		fields, problems := c.Normalize(key.Kind, d.fields)
		spec.Fields = fields
		d.add(problems...)
		return spec
	}
	// What is not there may be what could not be read, so only single values are
	// judged.
	_, problems := c.schemas[key.Kind].checkFields(d.fields)
	d.add(sortProblems(problems)...)
	return spec
}

// meta takes the document's own fields out of the flat map. It reports false where
// the kind is not known, and nothing more can be said.
func (d *document) meta(c *Catalog) (key Key, note string, ok bool) {
	values := map[string]string{}
	for i := range metaFields {
		values[metaFields[i].Path] = d.metaField(&metaFields[i])
	}
	d.checkTop()
	if values["kind"] == "" {
		return key, "", false
	}
	kind, known := c.KindByName(values["kind"])
	if !known {
		d.add(Problem{Path: "kind", Message: c.Unknown(values["kind"])})
		return key, "", false
	}
	key = Key{Kind: kind.Name, Namespace: values["namespace"], Name: values["name"]}
	if kind.Namespaced && key.Namespace == "" {
		key.Namespace = DefaultNamespace
	}
	if key.Name != "" {
		d.add(c.CheckKey(key)...)
	}
	return key, values["note"], true
}

func (d *document) add(problems ...Problem) {
	d.problems = append(d.problems, d.locate(problems)...)
}

// metaField takes one field out and reads it.
func (d *document) metaField(f *Field) string {
	raw, ok := d.fields[f.Path]
	d.drop(f.Path)
	if !ok && d.written(f.Path) {
		raw, ok = emptyMap, true
	}
	if !ok {
		if f.Required {
			d.add(Problem{Message: f.Path + " is missing; a document begins with kind: and name:"})
		}
		return ""
	}
	text, err := f.normalize(raw)
	if err != nil {
		d.add(Problem{Path: f.Path, Message: err.Error()})
		return ""
	}
	value, _ := readString(text)
	return value
}

func (d *document) written(path string) bool { _, ok := d.keys[path]; return ok }

// checkTop refuses fields at the top that no document has, and drops them, so that
// each is reported once.
func (d *document) checkTop() {
	top := []string{"kind", "name", "namespace", "note", "spec", "lifecycle"}
	for _, key := range d.fields.Keys("") {
		if slices.Contains(top, key) {
			continue
		}
		message, known := habits[key]
		if !known {
			message = "there is no such field" + didYouMean(key, top)
			if !strings.HasSuffix(message, "?") {
				message += "; there are " + strings.Join(top, ", ")
			}
		}
		path := Child("", key)
		d.add(Problem{Path: path, Message: message, onKey: true})
		d.drop(path)
	}
}

// drop takes a field, and what is below it, out of the flat map.
func (d *document) drop(path string) {
	for p := range d.fields {
		if p == path || Below(p, path) {
			delete(d.fields, p)
		}
	}
}
