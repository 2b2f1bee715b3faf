package api

import (
	"slices"
	"strings"
	"testing"
)

func TestOwners(t *testing.T) {
	for _, tt := range []struct{ kind, path, want string }{
		{"Pod", "spec.containers.app.image", People},
		{"Pod", "lifecycle.restart", People},
		{"Pod", "status.machine", LoopScheduler},
		{"Pod", `status.refusals."a.b"`, LoopAdmission},
		{"Pod", "status.refusals", LoopAdmission},
		{"Pod", "status.containers.*.pid", LoopContainer},
		{"Pod", "status.containers.app", LoopContainer},
		{"Pod", "status", People}, // several owners: no loop may claim all of it
		{"Pod", "status.nonsense", People},
		{"Pod", "status.loops.audit.passed", "audit"},
		{"Pod", "status.loops", People},
		{"Pod", `status.loops."a.b".x`, People},
		{"Machine", "status.prefix", LoopRoutes},
		{"Pod", "spec.parent.slot", OwnerParent},
		{"PinnedDeployment", "spec.next.containers.app.image", People},
		{"PinnedDeployment", "status.slots.0.ready", LoopPinned},
		{"Nonsense", "status.prefix", People},
	} {
		if got := OwnerOf(tt.kind, tt.path); got != tt.want {
			t.Errorf("OwnerOf(%s, %s) = %q, want %q", tt.kind, tt.path, got, tt.want)
		}
	}
}

func TestStepOwners(t *testing.T) {
	for _, tt := range []struct{ kind, step, want string }{
		{"Pod", "schedule", LoopScheduler},
		{"Pod", "admit", LoopAdmission},
		{"Pod", "image", LoopImage},
		{"Pod", "storage", LoopVolume},
		{"Pod", "ready", LoopReadiness},
		{"Pod", "inventory", People},
		{"Pod", "audit:check", "audit"},
		{"Pod", "Audit:check", People},
		{"Nonsense", "audit:check", "audit"},
		{"Machine", "inventory", LoopInventory},
		{"Nonsense", "schedule", People},
	} {
		if got := StepOwner(tt.kind, tt.step); got != tt.want {
			t.Errorf("StepOwner(%s, %s) = %q, want %q", tt.kind, tt.step, got, tt.want)
		}
	}
}

// TestSpecOwners: a child belongs to its parent's loop, whoever else is called a loop.
func TestSpecOwners(t *testing.T) {
	for _, tt := range []struct{ kind, creator, want string }{
		{"Pod", "user:alice", People},
		{"Pod", "loop:pinned", LoopPinned},
		{"Pod", "loop:scheduler", People},
		{"Machine", "loop:inventory", People},
		{"PinnedDeployment", "loop:pinned", People},
	} {
		if got := SpecOwner(tt.kind, tt.creator); got != tt.want {
			t.Errorf("SpecOwner(%s, %s) = %q, want %q", tt.kind, tt.creator, got, tt.want)
		}
	}
}

// TestTables holds every table to what the rest of the package relies on.
func TestTables(t *testing.T) {
	if !slices.IsSortedFunc(Kinds(), func(a, b Kind) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("Kinds is not sorted")
	}
	for _, k := range Kinds() {
		seen := map[string]bool{}
		for _, f := range k.Fields {
			if seen[f.Path] {
				t.Errorf("%s: %s is there twice", k.Name, f.Path)
			}
			seen[f.Path] = true
			checkRow(t, k, f)
		}
		s := schemaOf(k.Name)
		for _, g := range k.Groups {
			if s.lookup(g.Path) == nil {
				t.Errorf("%s: group %s has no field", k.Name, g.Path)
			}
		}
		checkNodes(t, k, s.root)
	}
}

func checkRow(t *testing.T, k Kind, f Field) {
	t.Helper()
	status := strings.HasPrefix(f.Path, "status.") || strings.HasPrefix(f.Path, "spec.parent.")
	if status != (f.Owner != People) {
		t.Errorf("%s: %s has owner %q: status belongs to loops, everything else to people", k.Name, f.Path, f.Owner)
	}
	if !strings.HasSuffix(f.Doc, ".") {
		t.Errorf("%s: the documentation of %s is not a sentence", k.Name, f.Path)
	}
	if f.Default == "" {
		return
	}
	if got, err := Canonical(f.Default); err != nil || got != f.Default {
		t.Errorf("%s: the default of %s is not canonical: %s, %v", k.Name, f.Path, f.Default, err)
	}
}

func checkNodes(t *testing.T, k Kind, n *node) {
	t.Helper()
	for _, c := range n.children {
		if c.name == "*" && (len(n.children) != 1 || c.group.Key == "") {
			t.Errorf("%s: %s needs a key rule and no named siblings", k.Name, c.path)
		}
		if c.field != nil && len(c.children) > 0 {
			t.Errorf("%s: %s is a field and has fields below it", k.Name, c.path)
		}
		if c.field == nil && c.name != "*" && c.group.Doc == "" && !strings.Contains(c.path, "*.resources") {
			t.Errorf("%s: %s has no documentation", k.Name, c.path)
		}
		checkNodes(t, k, c)
	}
}

func TestEffective(t *testing.T) {
	in := Fields{
		"spec.containers.app.image":             Str("a"),
		"spec.containers.app.mounts.data.path":  Str("/data"),
		"spec.containers.side.mounts.data.path": Str("/data"),
		"spec.containers.side.image":            Str("b"),
		"spec.volumes.data.type":                Str(VolumeDirectory),
		"spec.stop.grace":                       Duration(3e9),
	}
	before := in.Clone()
	out := Effective("Pod", in)
	for path, want := range map[string]string{
		"spec.containers.app.mounts.data.readonly":  "false",
		"spec.containers.side.mounts.data.readonly": "false",
		"spec.partition":    `"pinned"`,
		"spec.stop.grace":   `"3s"`,
		"spec.stop.signal":  `"SIGTERM"`,
		"lifecycle.target":  `"ready"`,
		"lifecycle.restart": "0",
	} {
		if out[path] != want {
			t.Errorf("%s = %s, want %s", path, out[path], want)
		}
	}
	if len(Diff(before, in)) != 0 {
		t.Error("Effective changed its argument")
	}
	if got := Effective("Pod", Fields{}).String("spec.partition"); got != PartitionReplace {
		t.Errorf("without volumes: partition %q", got)
	}
}
