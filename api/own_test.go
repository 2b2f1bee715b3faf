package api

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawKind draws a valid Kind.
func drawKind(t *rapid.T) Fields {
	f := Fields{"spec.doc": Str(drawText().Draw(t, "doc"))}
	types := []Type{TypeString, TypeInt, TypeBool, TypeStrings, TypeCPU, TypeBytes, TypeDuration, TypePort, TypeTime, TypeJSON}
	for _, path := range []string{"spec.size", "spec.users.*.role", "spec.labels.*", "spec.a.b", "status.loops.db-a.x", "status.loops.db.users.*"} {
		if !rapid.Bool().Draw(t, path) {
			continue
		}
		at := Child("spec.fields", path)
		field := Field{Type: rapid.SampledFrom(types).Draw(t, "type")}
		f[at+".type"], f[at+".doc"] = Str(string(field.Type)), Str(drawText().Draw(t, "doc"))
		if people := strings.HasPrefix(path, "spec"); people && field.Type != TypeTime && field.Type != TypeJSON && rapid.Bool().Draw(t, "default") {
			f[at+".default"] = drawValue(t, field)
		}
	}
	if rapid.Bool().Draw(t, "steps") {
		f["spec.steps.make.loop"], f["spec.steps.make.reads"], f["spec.steps.make.undo"] = Str("db"), List("spec"), Bool(true)
		if rapid.Bool().Draw(t, "every") {
			f["spec.steps.make.every"] = Duration(1e6 * drawMillis(t))
		}
		f["spec.targets.stopped.doc"] = Str("nothing runs")
	}
	if rapid.Bool().Draw(t, "rules") {
		f["spec.rules.r.check"], f["spec.rules.r.message"] = Str(drawText().Draw(t, "check")), Str("no")
	}
	return f
}

// database is the Kind of the tests.
const database = `
kind: Kind
name: database
spec:
  doc: A database for one application.
  columns: [spec.engine, status.loops.db.endpoint]
  fields:
    spec.engine: {type: string, enum: [postgres, sqlite], default: postgres, doc: Which program serves it.}
    spec.size: {type: bytes, required: true, doc: How much it may hold.}
    spec.users.*.role: {type: string, enum: [reader, writer], default: reader, doc: What the user may do.}
    status.loops.db.endpoint: {type: string, owner: db, doc: Where it answers.}
  steps:
    provision: {loop: db, reads: [spec], outputs: [status.loops.db]}
  targets:
    stopped: {doc: Nothing runs., goal: true}
`

// TestOwnKind: objects of a kind that the same file defines are read as strictly as
// built-in ones, wherever in the file the Kind stands.
func TestOwnKind(t *testing.T) {
	const object = "kind: Database\nname: main\nspec:\n  size: 1024Mi\n  users: {alice: {}, bob: {role: writer}}\n"
	for _, file := range []string{database + "---\n" + object, object + "---\n" + database} {
		specs, err := ParseYAML("db.yaml", []byte(file))
		if err != nil || len(specs) != 2 {
			t.Fatalf("%d specs, %v", len(specs), err)
		}
		main := specs[0]
		if main.Key.Kind == "Kind" {
			main = specs[1]
		}
		if main.Key.String() != "database/main" || main.Fields["spec.size"] != `"1Gi"` {
			t.Errorf("read %s with size %s", main.Key, main.Fields["spec.size"])
		}
	}
	for edit, want := range map[string]string{
		"size: 1024Mi -> siez: 1Gi":       "db.yaml:4:3: spec.siez: there is no such field; did you mean size?\n   4 |   siez: 1Gi\n     |   ^",
		"size: 1024Mi -> size: much":      "db.yaml:4:9: spec.size:",
		"role: writer -> role: wirter":    `"wirter" is not one of reader, writer; did you mean writer?`,
		"kind: Database -> kind: Databse": "did you mean Database?",
		"  size: 1024Mi\n -> ":            "size is missing",
	} {
		old, new, _ := strings.Cut(edit, " -> ")
		_, err := ParseYAML("db.yaml", []byte(strings.Replace(object, old, new, 1)+"---\n"+database))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\n%v\nwant\n%s", edit, err, want)
		}
	}
}

// The table that a Kind makes has defaults, owners, and goals.
func TestDefineKind(t *testing.T) {
	specs, err := ParseYAML("db.yaml", []byte(database))
	if err != nil {
		t.Fatal(err)
	}
	k, ok := DefineKind("database", specs[0].Fields)
	if !ok || k.Name != "Database" || k.Plural != "databases" {
		t.Fatalf("%v %+v", ok, k)
	}
	c := Builtin().With(k)
	if found, ok := c.KindByName("DATABASES"); !ok || found.Name != "Database" {
		t.Errorf("by its plural: %v %s", ok, found.Name)
	}
	with := c.Effective("Database", Fields{"spec.users.alice.role": `"writer"`, "spec.size": `"1Gi"`})
	if with["spec.engine"] != `"postgres"` || with["lifecycle.target"] != `"ready"` {
		t.Errorf("with defaults: %v", with)
	}
	if f, _ := c.FieldOf("Database", "lifecycle.target"); fmt.Sprint(f.Enum) != "[ready stopped]" {
		t.Errorf("the goals are %v", f.Enum)
	}
	if f, _ := c.FieldOf("Database", "status.loops.db.endpoint"); f.Owner != "db" {
		t.Errorf("the endpoint belongs to %q", f.Owner)
	}
	text, err := c.Explain("database.spec.users.*.role")
	if err != nil || !strings.Contains(text, "owner:    people") || !strings.Contains(text, "default:  reader") {
		t.Errorf("%v\n%s", err, text)
	}
}

// Whose something is follows from names, whether the kind is known or not.
func TestOwnersOfUnknownKinds(t *testing.T) {
	for path, want := range map[string]string{
		"spec.size": People, "lifecycle.target": People, "status.loops.db.endpoint": "db", "spec.parent.id": OwnerParent, "status.ready": People,
	} {
		if got := OwnerOf("Database", path); got != want {
			t.Errorf("%s belongs to %q, want %q", path, got, want)
		}
	}
	for creator, want := range map[string]string{"user:alice": People, "loop:db": "db", "loop:pinned": LoopPinned, "loop:inventory": People} {
		if got := SpecOwner("Pod", creator); got != want {
			t.Errorf("the spec of a pod by %s belongs to %q, want %q", creator, got, want)
		}
	}
	if got := StepOwner("Database", "db:provision"); got != "db" {
		t.Errorf("the step belongs to %q", got)
	}
	for _, key := range []Key{{"Database", "default", "main"}, {"Database", "shop", "main"}, {"Pod", "default", "a"}, {"Machine", "", "m1"}} {
		if back, err := KeyFromString(key.String()); err != nil || back != key {
			t.Errorf("%s reads back as %+v, %v", key, back, err)
		}
	}
}

// What is wrong with a Kind is said at its place.
func TestBadKinds(t *testing.T) {
	for edit, want := range map[string]string{
		"spec.engine: -> engine:":                                 `"engine" is no path of a field; write one as in spec.size`,
		"spec.engine: -> status.engine:":                          "is in the status, which loops write, each below its own name",
		"spec.engine: -> lifecycle.engine:":                       "every kind has the same fields below lifecycle",
		"spec.engine: -> spec.Engine:":                            `"Engine" in "spec.Engine" is no name of a field`,
		"spec.engine: -> spec.size.x:":                            "spec.size is a field already",
		"spec.engine: -> spec.parent.x:":                          "spec.parent is there in every kind",
		"default: postgres -> default: oracle":                    `"oracle" is not one of postgres, sqlite`,
		"owner: db -> owner: people":                              "status.loops.db.endpoint belongs to db by its path",
		"[spec.engine, -> [spec.engin,":                           `"spec.engin" is not one of spec.fields; did you mean spec.engine?`,
		"outputs: [status.loops.db] -> outputs: [status.loops.x]": "belongs to loop x; loop db writes below status.loops.db",
		"loop: db -> loop: scheduler":                             `"scheduler" is a loop of the peer itself`,
		"type: bytes -> type: byte":                               "did you mean bytes?",
		"name: database -> name: data-base":                       "a Kind is called in lower case letters and digits",
		"name: database -> name: pod":                             "there is a kind Pod already",
	} {
		old, new, _ := strings.Cut(edit, " -> ")
		text := strings.Replace(database, old, new, 1)
		if text == database {
			t.Fatalf("%q changes nothing", edit)
		}
		_, err := ParseYAML("db.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "^") {
			t.Errorf("%q:\n%v\nwant\n%s", edit, err, want)
		}
	}
}

// FuzzDefineKind: whatever a Kind says, its table can be used.
func FuzzDefineKind(f *testing.F) {
	f.Add([]byte(database), []byte("kind: Database\nname: x\nspec: {size: 1}"))
	f.Fuzz(func(t *testing.T, kind, object []byte) {
		c := Builtin().WithKindsIn(kind)
		specs, err := c.ParseYAML("x", object)
		if err != nil {
			return
		}
		for _, s := range specs {
			if problems := c.Validate(s.Key.Kind, c.Effective(s.Key.Kind, s.Fields)); len(problems) > 0 && c.soundDefaults(s.Key.Kind) {
				t.Fatalf("with defaults: %v", problems)
			}
			again, err := c.ParseYAML("x", c.Render(s.Key, s.Fields))
			if CodeOf(err) == TooLarge {
				continue
			}
			if err != nil || len(again) != 1 || len(Diff(s.Fields, again[0].Fields)) > 0 {
				t.Fatalf("%v: read back otherwise\n%s", err, c.Render(s.Key, s.Fields))
			}
		}
	})
}

// soundDefaults: a fuzzed Kind need not be valid, and then nor are its defaults.
func (c *Catalog) soundDefaults(kind string) bool {
	k, _ := c.KindByName(kind)
	if !k.Own {
		return true
	}
	for i := range k.Fields {
		f := &k.Fields[i]
		if _, err := f.normalize(f.Default); f.Default != "" && err != nil || f.Required && f.Default != "" {
			return false
		}
	}
	return true
}
