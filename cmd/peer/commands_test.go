package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
)

func web() *apiv1.Key { return &apiv1.Key{Kind: "Pod", Namespace: "default", Name: "web"} }

// taker remembers the change set that it was asked for, and says that all went well.
func taker(got **apiv1.ApplyRequest) *fake {
	return &fake{apply: func(r *apiv1.ApplyRequest) (*apiv1.ApplyResponse, error) {
		*got = r
		out := &apiv1.ApplyResponse{ChangeSet: "5f0c9a3be1d2", HeldBy: "m2", View: &apiv1.View{Machine: "m1", Unreachable: []string{"m3"}}}
		for _, e := range r.GetEdits() {
			out.Outcomes = append(out.Outcomes, &apiv1.Outcome{Key: e.GetKey(), Result: "changed", Rev: "2"})
		}
		return out, nil
	}}
}

func wantEdits(t *testing.T, got *apiv1.ApplyRequest, want ...*apiv1.Edit) {
	t.Helper()
	if !proto.Equal(&apiv1.ApplyRequest{Edits: got.GetEdits()}, &apiv1.ApplyRequest{Edits: want}) {
		t.Errorf("the edits are %v, want %v", got.GetEdits(), want)
	}
}

const webYAML = `kind: Pod
name: web
note: greet
spec:
  containers:
    app: {image: "localhost/hello:1"}
`

var webFields = map[string]string{"spec.containers.app.image": `"localhost/hello:1"`}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestApplySendsOneChangeSet(t *testing.T) {
	var got *apiv1.ApplyRequest
	dir := filepath.Dir(write(t, "a.yaml", webYAML+"---\nkind: Machine\nname: m1\n"))
	if err := os.WriteFile(filepath.Join(dir, "README"), []byte("no spec"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := taker(&got).run(t, "apply", "-f", dir)
	o.wantOut(t, "pod/web changed (rev 2)\nmachine/m1 changed (rev 2)\n")
	o.wantErr(t, exitOK, "change set 5f0c9a3be1d2; held by m2 too", "as seen from m1; out of reach: m3")
	wantEdits(t, got,
		&apiv1.Edit{Kind: apiv1.EditKind_EDIT_KIND_APPLY, Key: web(), Fields: webFields},
		&apiv1.Edit{Kind: apiv1.EditKind_EDIT_KIND_APPLY, Key: &apiv1.Key{Kind: "Machine", Name: "m1"}})
	if got.GetAuthor() != "alice" || got.GetMessage() != "greet" {
		t.Errorf("author %q and note %q, want alice and greet", got.GetAuthor(), got.GetMessage())
	}
}

func TestApplyReadsStandardInput(t *testing.T) {
	var got *apiv1.ApplyRequest
	o := execute(t, taker(&got).serve(t), typed{args: []string{"apply", "-f", "-", "-m", "mine"}, in: strings.NewReader(webYAML)})
	o.wantOut(t, "pod/web changed")
	if got.GetMessage() != "mine" {
		t.Errorf("the note is %q; the flag's should win", got.GetMessage())
	}
}

// Nothing reaches the peer unless all files are right.
func TestApplyRefusesBadFiles(t *testing.T) {
	bad := write(t, "bad.yaml", "kind: Pod\nname: web\nspec:\n  containers:\n    app: {imag: x}\n")
	good := write(t, "good.yaml", webYAML)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"apply"}, "name a file with -f"},
		{[]string{"apply", "-f", bad}, "bad.yaml:5:11: spec.containers.app.imag: there is no such field"},
		{[]string{"apply", "-f", good, "-f", bad}, "did you mean"},
		{[]string{"apply", "-f", good, "-f", good}, "pod/web is in " + good + " and in " + good},
		{[]string{"apply", "-f", good + ".no"}, "no such file"},
		{[]string{"apply", "-f", t.TempDir()}, "there is no .yaml, .yml or .json file in"},
		{[]string{"apply", "web"}, `unknown command "web"`},
	} {
		f := &fake{apply: func(*apiv1.ApplyRequest) (*apiv1.ApplyResponse, error) {
			t.Errorf("%v reached the peer", c.args)
			return nil, unknown()
		}}
		f.run(t, c.args...).wantErr(t, exitError, c.want)
	}
}

// What only the peer can find is shown in the file all the same.
func TestProblemsOfThePeerAreFoundInTheFile(t *testing.T) {
	f := &fake{apply: func(*apiv1.ApplyRequest) (*apiv1.ApplyResponse, error) {
		return nil, refusal(connect.CodeInvalidArgument, &api.Error{
			Code: api.SpecInvalid, Message: "pod/web is not valid; nothing was changed",
			Problems: []api.Problem{{Path: "spec.containers.app.image", Message: "it has too many colons: a:b:c"}},
		})
	}}
	file := write(t, "web.yaml", webYAML+"---\nkind: Machine\nname: m1\n")
	f.run(t, "apply", "-f", file).wantErr(t, exitError,
		"pod/web is not valid; nothing was changed\n"+file+":6:18: spec.containers.app.image: it has too many colons: a:b:c\n",
		"   6 |     app: {image: \"localhost/hello:1\"}\n     |                  ^")
}

func TestPlanTellsByItsExitCode(t *testing.T) {
	for result, code := range map[string]int{"unchanged": exitOK, "changed": exitDifference, "created": exitDifference} {
		f := &fake{plan: func(*apiv1.ApplyRequest) (*apiv1.PlanResponse, error) {
			return &apiv1.PlanResponse{Objects: []*apiv1.ObjectPlan{{Key: web(), Result: result}}}, nil
		}}
		for _, word := range []string{"plan", "diff"} {
			o := execute(t, f.serve(t), typed{args: []string{word, "-f", "-"}, in: strings.NewReader(webYAML)})
			if o.code != code || o.out != "pod/web: "+result+"\n" || o.errs != "" {
				t.Errorf("%s of what is %s: %+v, want code %d and no message", word, result, o, code)
			}
		}
	}
}

func TestRunMakesAPod(t *testing.T) {
	var got *apiv1.ApplyRequest
	taker(&got).run(t, "run", "web", "--image", "localhost/hello:1", "--port", "http=8080", "--env", "A=b=c", "--cpu", "1500m",
		"--memory", "64Mi", "--require", "example.com/disk=ssd", "--restart", "never", "-n", "shop", "--", "--listen", "[::]:8080").wantOut(t, "pod/shop/web changed")
	wantEdits(t, got, &apiv1.Edit{
		Kind: apiv1.EditKind_EDIT_KIND_APPLY, MustNotExist: true, Key: &apiv1.Key{Kind: "Pod", Namespace: "shop", Name: "web"},
		Fields: map[string]string{
			"spec.containers.app.image": `"localhost/hello:1"`, "spec.containers.app.ports.http": "8080", "spec.containers.app.env.A": `"b=c"`,
			"spec.containers.app.resources.cpu": `"1500m"`, "spec.containers.app.resources.memory": `"64Mi"`,
			`spec.require."example.com/disk"`: `"ssd"`, "spec.restart": `"never"`, "spec.containers.app.args": `["--listen","[::]:8080"]`,
		},
	})
}

func TestRunRefusesWhatItCannotMean(t *testing.T) {
	for want, args := range map[string][]string{
		"give the pod a name":                  {"--image", "x:1"},
		"name the image":                       {"web"},
		`"sleep": put -- before`:               {"web", "sleep", "--image", "x:1"},
		"--env A: write it as NAME=VALUE":      {"web", "--image", "x:1", "--env", "A"},
		"spec.containers.app.ports.http":       {"web", "--image", "x:1", "--port", "http=99999"},
		"spec.containers.app.resources.memory": {"web", "--image", "x:1", "--memory", "lots"},
		"spec.restart":                         {"web", "--image", "x:1", "--restart", "sometimes"},
		"has no flag --imgae":                  {"web", "--imgae", "x:1"},
	} {
		(&fake{}).run(t, append([]string{"run"}, args...)...).wantErr(t, exitError, want)
	}
}

func TestDeleteOfObjectsAndFiles(t *testing.T) {
	var got *apiv1.ApplyRequest
	taker(&got).run(t, "delete", "old", "machine/m9", "-f", write(t, "web.yaml", webYAML)).wantOut(t)
	doomed := func(kind, ns, name string) *apiv1.Edit {
		return &apiv1.Edit{Kind: apiv1.EditKind_EDIT_KIND_DELETE, Key: &apiv1.Key{Kind: kind, Namespace: ns, Name: name}}
	}
	wantEdits(t, got, doomed("Pod", "default", "old"), doomed("Machine", "", "m9"), doomed("Pod", "default", "web"))
	(&fake{}).run(t, "delete").wantErr(t, exitError, "name an object, or a file with -f")
}

// Each of these changes one field and leaves the rest alone.
func TestPatches(t *testing.T) {
	patch := func(key *apiv1.Key, fields map[string]string, unset ...string) *apiv1.Edit {
		return &apiv1.Edit{Kind: apiv1.EditKind_EDIT_KIND_PATCH, Key: key, Fields: fields, Unset: unset, MustExist: true}
	}
	m2 := &apiv1.Key{Kind: "Machine", Name: "m2"}
	for line, want := range map[string]*apiv1.Edit{
		"restart web":                                patch(web(), map[string]string{"lifecycle.restart": "5"}),
		"switch web stopped --mode fail":             switching(&apiv1.SwitchTo{Target: "stopped", Mode: "fail"}),
		"switch web ready --skip image":              switching(&apiv1.SwitchTo{Target: "ready", Skip: []string{"image"}}),
		"switch web --cancel":                        switching(&apiv1.SwitchTo{Cancel: true}),
		"machine drain m2":                           patch(m2, map[string]string{"lifecycle.target": `"drained"`}),
		"machine resume machine/m2":                  patch(m2, nil, "lifecycle.target"),
		"machine label m2 disk=ssd a.b/c= old- x=y-": patch(m2, map[string]string{"spec.labels.disk": `"ssd"`, `spec.labels."a.b/c"`: `""`, "spec.labels.x": `"y-"`}, "spec.labels.old"),
	} {
		var got *apiv1.ApplyRequest
		f := taker(&got)
		f.get = func(*apiv1.GetRequest) (*apiv1.GetResponse, error) {
			return &apiv1.GetResponse{Objects: []*apiv1.Object{{Key: web(), Fields: map[string]string{"lifecycle.restart": "4"}}}}, nil
		}
		f.run(t, strings.Fields(line)...).wantOut(t, "changed")
		wantEdits(t, got, want)
	}
	(&fake{}).run(t, "machine", "label", "m2", "ssd").wantErr(t, exitError, `label "ssd": write KEY=VALUE`)
}

func switching(to *apiv1.SwitchTo) *apiv1.Edit {
	return &apiv1.Edit{Kind: apiv1.EditKind_EDIT_KIND_SWITCH, Key: web(), SwitchTo: to}
}

func TestRollbackOfObjectAndChangeSet(t *testing.T) {
	var got *apiv1.RollbackRequest
	f := &fake{rollback: func(r *apiv1.RollbackRequest) (*apiv1.ApplyResponse, error) {
		got = r
		return &apiv1.ApplyResponse{Outcomes: []*apiv1.Outcome{{Key: web(), Result: "changed", Rev: "9"}}}, nil
	}}
	f.run(t, "rollback", "web", "--to", "3", "-m", "worse").wantOut(t, "pod/web changed (rev 9)")
	if want := (&apiv1.RollbackRequest{Key: web(), To: "3", Message: "worse", Author: "alice"}); !proto.Equal(got, want) {
		t.Errorf("asked for %v, want %v", got, want)
	}
	f.run(t, "rollback", "5f0c9a3be1d2").wantOut(t)
	if want := (&apiv1.RollbackRequest{ChangeSet: "5f0c9a3be1d2", Author: "alice"}); !proto.Equal(got, want) {
		t.Errorf("asked for %v, want %v", got, want)
	}
}

func TestGetAsksForWhatIsMeant(t *testing.T) {
	for line, want := range map[string]*apiv1.GetRequest{
		"get":                     {},
		"get -n shop":             {Namespace: "shop"},
		"get pods":                {Kind: "Pod"},
		"get web":                 {Kind: "Pod", Namespace: "default", Name: "web"},
		"get pod web -n shop":     {Kind: "Pod", Namespace: "shop", Name: "web"},
		"get Machine/m1":          {Kind: "Machine", Name: "m1"},
		"get pod/shop/web --at 3": {Kind: "Pod", Namespace: "shop", Name: "web", At: "3"},
	} {
		var got *apiv1.GetRequest
		f := &fake{get: func(r *apiv1.GetRequest) (*apiv1.GetResponse, error) {
			got = r
			return &apiv1.GetResponse{}, nil
		}}
		f.run(t, strings.Fields(line)...).wantOut(t)
		if !proto.Equal(got, want) {
			t.Errorf("%s asks for %v, want %v", line, got, want)
		}
	}
	(&fake{}).run(t, "get", "frobs", "web").wantErr(t, exitError, `there is no kind "frobs"`)
	(&fake{}).run(t, "get", "pods", "--at", "3").wantErr(t, exitError, "name it: peer get OBJ --at REV")
}

func TestGetPrintsEachForm(t *testing.T) {
	f := &fake{get: func(*apiv1.GetRequest) (*apiv1.GetResponse, error) {
		return &apiv1.GetResponse{
			Objects: []*apiv1.Object{{Key: web(), Rev: "3", Phase: "ready", Fields: webFields, CreatedMs: at.UnixMilli() - 5000}},
			View:    &apiv1.View{Machine: "m1", Unreachable: []string{"m3"}},
		}, nil
	}}
	for args, want := range map[string]string{
		"web":         "pod/web   ready   3     -         0          5s\n",
		"web -o wide": "localhost/hello:1",
		"web -o name": "pod/web\n",
		"web -o yaml": "kind: Pod\nname: web\nspec:\n",
		"web -o json": "{\n  \"created\"",
		"-o json":     "[\n  {",
	} {
		o := f.run(t, append([]string{"get"}, strings.Fields(args)...)...)
		o.wantOut(t, want)
		o.wantErr(t, exitOK, "out of reach: m3")
	}
	f.run(t, "get", "-o", "xml").wantErr(t, exitError, `-o "xml": there are only`)
}

func TestReadingCommands(t *testing.T) {
	view := &apiv1.View{Machine: "m1"}
	state := &apiv1.ObjectState{Object: &apiv1.Object{Key: web(), Verdict: "blocked", Phase: "schedule blocked", Rev: "1"}, Goal: "ready",
		Steps: []*apiv1.StepStatus{{Step: "ready", State: "waiting", WaitsFor: "schedule", Requires: []string{"schedule"}}, {Step: "schedule", State: "blocked", Message: "no room", StartedMs: 1, FinishedMs: 2}}}
	f := &fake{
		status: func(r *apiv1.StatusRequest) (*apiv1.StatusResponse, error) {
			out := &apiv1.StatusResponse{Objects: []*apiv1.ObjectState{state}, View: view, LastLines: []string{"boom"}}
			if r.GetNet() {
				out.Net = "route fd5a::/96\n"
			}
			return out, nil
		},
		why: func(*apiv1.WhyRequest) (*apiv1.WhyResponse, error) {
			return &apiv1.WhyResponse{Verdict: "blocked", Sentence: "pod/web: schedule: no room", Fix: "Ask for less.", View: view}, nil
		},
		machines: func() (*apiv1.MachinesResponse, error) {
			return &apiv1.MachinesResponse{Machines: []*apiv1.MachineInfo{{Name: "m1", Self: true, Phase: "ready"}}}, nil
		},
		images: func() (*apiv1.ImagesResponse, error) {
			return &apiv1.ImagesResponse{Images: []*apiv1.Image{{Name: "localhost/hello:1", Machine: "m1"}}}, nil
		},
		debug: func() (*apiv1.DebugResponse, error) {
			return &apiv1.DebugResponse{StateHash: "abcd", Figures: map[string]int64{"objects": 3, "actors": 1}}, nil
		},
	}
	socket := f.serve(t)
	for line, want := range map[string]string{
		"status":                     "1 object: 1 blocked",
		"status web":                 "└ ✗ schedule",
		"describe web":               "last lines:\n  boom\nas seen from m1",
		"status machine/m1 --net":    "route fd5a::/96",
		"status web -o json":         `"verdict": "blocked"`,
		"why web":                    "blocked: pod/web: schedule: no room\nto do: Ask for less.\nas seen from m1\n",
		"why web -o yaml":            `sentence: "pod/web: schedule: no room"`,
		"machine ls":                 "m1 *      ready",
		"machine ls -o yaml":         "- name: m1",
		"image ls":                   "localhost/hello:1",
		"debug state-hash":           "abcd\n",
		"debug figures":              "actors 1\nobjects 3\n",
		"explain pod.status.machine": "loop scheduler",
		"explain DiskFull":           "Free some space",
		"analyze web --dot":          `"ready" [label=`,
		"analyze web":                "the long pole is schedule",
		"help exit-codes":            "124",
	} {
		wantStanding(t, line, execute(t, socket, typed{args: strings.Fields(line)})).wantOut(t, want)
	}
}

func TestHistoryAsksForAuthorsAndTimes(t *testing.T) {
	var got *apiv1.HistoryRequest
	f := &fake{history: func(r *apiv1.HistoryRequest) (*apiv1.HistoryResponse, error) {
		got = r
		return &apiv1.HistoryResponse{Entries: []*apiv1.HistoryEntry{{Key: web(), Rev: "1", Author: "user:bob", Diff: []*apiv1.FieldDiff{{Path: "spec.grace", New: `"1s"`}}}}}, nil
	}}
	o := f.run(t, "history", "web", "--by", "user:*", "--not-by", "loop:*", "--not-by", "user:eve", "--since", "1h30m", "--diff")
	o.wantOut(t, "user:bob", "    + spec.grace: \"1s\"\n")
	want := &apiv1.HistoryRequest{Key: web(), By: []string{"user:*"}, NotBy: []string{"loop:*", "user:eve"}, SinceMs: at.UnixMilli() - 5400_000, Diff: true}
	if !proto.Equal(got, want) {
		t.Errorf("asked for %v, want %v", got, want)
	}
	f.run(t, "history", "--since", "2026-03-14T15:09:26Z").wantOut(t)
	if got.GetSinceMs() != at.UnixMilli() {
		t.Errorf("since %d, want %d", got.GetSinceMs(), at.UnixMilli())
	}
	f.run(t, "history", "--since", "yesterday").wantErr(t, exitError, "--since: \"yesterday\"")
}

func TestInviteAndRemove(t *testing.T) {
	f := &fake{
		invite: func(r *apiv1.InviteRequest) (*apiv1.InviteResponse, error) {
			return &apiv1.InviteResponse{JoinLine: "peer join 192.0.2.1:7947 --token T", ExpiresMs: at.UnixMilli() + r.GetTtlMs()}, nil
		},
		remove: func(r *apiv1.RemoveMachineRequest) (*apiv1.RemoveMachineResponse, error) {
			if r.GetName() != "m3" || r.GetReason() != "dead" || r.GetSelf() {
				t.Errorf("asked to remove %v", r)
			}
			return &apiv1.RemoveMachineResponse{}, nil
		},
	}
	o := f.run(t, "invite", "--ttl", "30m")
	if o.out != "peer join 192.0.2.1:7947 --token T\n" {
		t.Errorf("the output is %q; scripts want the line alone", o.out)
	}
	o.wantErr(t, exitOK, "once, for 30m.")
	f.run(t, "machine", "remove", "m3", "--reason", "dead").wantOut(t, "machine/m3 removed\n")
}

func TestDoctorFindsByItsExitCode(t *testing.T) {
	var findings []*apiv1.Finding
	f := &fake{doctor: func() (*apiv1.DoctorResponse, error) {
		return &apiv1.DoctorResponse{Findings: findings, View: &apiv1.View{Machine: "m1"}}, nil
	}}
	f.run(t, "doctor").wantOut(t, "nothing on m1")
	findings = []*apiv1.Finding{{What: "the firewall drops it", Remedy: "open it"}}
	o := f.run(t, "doctor")
	o.wantErr(t, exitError)
	if !strings.Contains(o.out, "to do: open it") || o.errs != "" {
		t.Errorf("findings are the answer, not a message: %+v", o)
	}
}

func TestCompletion(t *testing.T) {
	f := &fake{get: func(r *apiv1.GetRequest) (*apiv1.GetResponse, error) {
		out := &apiv1.GetResponse{Objects: []*apiv1.Object{{Key: &apiv1.Key{Kind: "Machine", Name: "m1"}}}}
		if r.GetKind() == "" {
			out.Objects = append(out.Objects, &apiv1.Object{Key: web()})
		}
		return out, nil
	}}
	socket := f.serve(t)
	for line, want := range map[string][]string{
		"why|":               {"machine/m1", "pod/web"},
		"why|w":              {"web"},
		"get|pod":            {"pods", "pod/web"},
		"switch|web|s":       {"stopped"},
		"switch|machine/m1|": {"ready", "drained", "deleted"},
		"machine|drain|":     {"m1"},
		"explain|m":          {"machines"},
	} {
		o := execute(t, socket, typed{args: append([]string{"__complete"}, strings.Split(line, "|")...)})
		lines := strings.Split(o.out, "\n")
		if got := lines[:max(0, len(lines)-2)]; !slices.Equal(got, want) {
			t.Errorf("%s completes to %q, want %q", line, got, want)
		}
	}
	if o := execute(t, socket+".no", typed{args: []string{"__complete", "why", ""}}); o.code != exitOK || !strings.HasPrefix(o.out, ":") {
		t.Errorf("without a peer, completion says %+v; it should be silent", o)
	}
}
