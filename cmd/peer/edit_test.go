package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
)

// edited runs `peer edit` with an editor that is a shell script; $1 is the file.
func edited(t *testing.T, f *fake, script string) outcome {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	f.get = func(*apiv1.GetRequest) (*apiv1.GetResponse, error) {
		return &apiv1.GetResponse{Objects: []*apiv1.Object{{Key: web(), Rev: "3", Fields: webFields, Status: map[string]string{"status.machine": `"m1"`}}}}, nil
	}
	f.history = func(*apiv1.HistoryRequest) (*apiv1.HistoryResponse, error) {
		return &apiv1.HistoryResponse{Entries: []*apiv1.HistoryEntry{{Key: web(), Change: "aa"}, {Key: web(), Change: "bb", Current: true}}}, nil
	}
	editor := filepath.Join(t.TempDir(), "editor")
	if err := os.WriteFile(editor, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return execute(t, f.serve(t), typed{args: []string{"edit", "web", "-m", "louder"}, env: map[string]string{"EDITOR": editor}})
}

func leftovers(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "peer-web-*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

func TestEditAppliesWhatWasEdited(t *testing.T) {
	var got *apiv1.ApplyRequest
	edited(t, taker(&got), `sed -i s/hello:1/hello:2/ "$1"`).wantOut(t, "pod/web changed")
	want := &apiv1.ApplyRequest{Author: "alice", Message: "louder", Edits: []*apiv1.Edit{{
		Kind: apiv1.EditKind_EDIT_KIND_APPLY, Key: web(), BaseRev: "bb", MustExist: true,
		Fields: map[string]string{"spec.containers.app.image": `"localhost/hello:2"`},
	}}}
	if !proto.Equal(got, want) {
		t.Errorf("asked for %v, want %v", got, want)
	}
	if leftovers(t) != 0 {
		t.Error("the edited file was left behind")
	}
}

func TestEditWithoutAChangeDoesNothing(t *testing.T) {
	for _, script := range []string{":", `echo "# only a comment" > "$1"`} {
		var got *apiv1.ApplyRequest
		edited(t, taker(&got), script).wantErr(t, exitOK, "nothing was changed")
		if got != nil || leftovers(t) != 0 {
			t.Errorf("%s: asked for %v and left %d files", script, got, leftovers(t))
		}
	}
}

// A bad edit comes back with what is wrong above it; a good one then counts.
func TestEditShowsProblemsAgain(t *testing.T) {
	var got *apiv1.ApplyRequest
	record := filepath.Join(t.TempDir(), "second")
	edited(t, taker(&got), fmt.Sprintf(`if grep -q '^#!' "$1"; then
  cp "$1" %s
  sed -i s/imag:/image:/ "$1"
else
  sed -i s/image:/imag:/ "$1"
fi`, record)).wantOut(t, "pod/web changed")
	second, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	place := regexp.MustCompile(`#! \S+\.yaml:(\d+):7: spec\.containers\.app\.imag: there is no such field`).FindStringSubmatch(string(second))
	if place == nil {
		t.Fatalf("the editor does not show the problem:\n%s", second)
	}
	var line int
	fmt.Sscan(place[1], &line)
	if lines := strings.Split(string(second), "\n"); !strings.Contains(lines[line-1], "imag: localhost/hello:1") {
		t.Errorf("the problem is said to be in line %d, which is %q", line, lines[line-1])
	}
	wantEdits(t, got, &apiv1.Edit{Kind: apiv1.EditKind_EDIT_KIND_APPLY, Key: web(), BaseRev: "bb", MustExist: true, Fields: webFields})
}

// What a person typed is never lost.
func TestEditKeepsTheText(t *testing.T) {
	conflict := &fake{apply: func(*apiv1.ApplyRequest) (*apiv1.ApplyResponse, error) {
		return nil, refusal(connect.CodeAborted, api.Errorf(api.Conflict, "pod/web was changed by somebody else meanwhile"))
	}}
	edited(t, conflict, `sed -i s/hello:1/hello:2/ "$1"`).wantErr(t, exitError, "changed by somebody else", "your text is kept in")
	if leftovers(t) != 1 {
		t.Errorf("%d files are kept, want the one", leftovers(t))
	}
	for script, want := range map[string]string{
		`grep -q '^#!' "$1" || sed -i s/image:/imag:/ "$1"`:        "there is no such field",
		`grep -q '^#!' "$1" || sed -i 's/name: web/name: x/' "$1"`: "the text must describe pod/web and nothing else",
		`exit 3`: "run the editor",
	} {
		edited(t, &fake{}, script).wantErr(t, exitError, want, "your text is kept in")
	}
}
