package main

import (
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
)

// Words of other systems that mean a command of ours are that command.
func TestHabitsAreCommands(t *testing.T) {
	deployment := &apiv1.Key{Kind: "PinnedDeployment", Namespace: "default", Name: "web"}
	replicas := &apiv1.Edit{Kind: apiv1.EditKind_EDIT_KIND_PATCH, Key: deployment, Fields: map[string]string{"spec.replicas": "3"}, MustExist: true}
	for line, want := range map[string]*apiv1.Edit{
		"stop web":               switching(&apiv1.SwitchTo{Target: "stopped"}),
		"start web":              switching(&apiv1.SwitchTo{Target: "ready"}),
		"scale web 3":            replicas,
		"scale web --replicas=3": replicas,
		"scale deploy/web=3":     replicas,
		"rm pod web":             {Kind: apiv1.EditKind_EDIT_KIND_DELETE, Key: web()},
		"delete po web":          {Kind: apiv1.EditKind_EDIT_KIND_DELETE, Key: web()},
		"drain m1": {
			Kind: apiv1.EditKind_EDIT_KIND_PATCH, Key: &apiv1.Key{Kind: "Machine", Name: "m1"},
			Fields: map[string]string{"lifecycle.target": `"drained"`}, MustExist: true,
		},
	} {
		var got *apiv1.ApplyRequest
		taker(&got).run(t, strings.Fields(line)...).wantOut(t, "changed")
		if got != nil {
			wantEdits(t, got, want)
		}
	}
	(&fake{}).run(t, "scale", "web", "few").wantErr(t, exitError, `"few" is not a number of pods`)
	(&fake{}).run(t, "version").wantOut(t, "peer version ")
}

// KIND NAME, and a kind alone where all of it may be meant.
func TestAnObjectMayBeTwoWords(t *testing.T) {
	var got *apiv1.StatusRequest
	f := &fake{status: func(r *apiv1.StatusRequest) (*apiv1.StatusResponse, error) {
		got = r
		return &apiv1.StatusResponse{}, nil
	}}
	for line, want := range map[string]*apiv1.Key{
		"status pod web":       web(),
		"describe pod web":     web(),
		"status svc web":       {Kind: "Service", Namespace: "default", Name: "web"},
		"status svc/web":       {Kind: "Service", Namespace: "default", Name: "web"},
		"status pod shop/web":  {Kind: "Pod", Namespace: "shop", Name: "web"},
		"status pods":          {Kind: "Pod"},
		"status machine m1":    {Kind: "Machine", Name: "m1"},
		"analyze pod web@3":    web(),
		"analyze pods web --o": nil,
	} {
		if got = nil; want == nil {
			f.run(t, strings.Fields(line)...).wantErr(t, exitError, "has no flag --o")
			continue
		}
		f.run(t, strings.Fields(line)...).wantOut(t)
		if !proto.Equal(got.GetKey(), want) {
			t.Errorf("%s asks for %v, want %v", line, got.GetKey(), want)
		}
	}
}

// `get` takes words of other systems for kinds, unless a pod is called so.
func TestGetOfKindsOfOtherSystems(t *testing.T) {
	pods := map[string]bool{"deploy": true}
	f := &fake{get: func(r *apiv1.GetRequest) (*apiv1.GetResponse, error) {
		if r.GetName() != "" && !pods[r.GetName()] {
			return nil, refusal(connect.CodeNotFound, api.Errorf(api.NotFound, "pod/%s does not exist", r.GetName()))
		}
		return &apiv1.GetResponse{Objects: []*apiv1.Object{{Key: &apiv1.Key{Kind: r.GetKind(), Name: "x"}}}}, nil
	}}
	f.run(t, "get", "nodes", "-o", "name").wantOut(t, "machine/x")
	f.run(t, "get", "deploy", "-o", "name").wantOut(t, "pod/x")
	f.run(t, "get", "svc", "-o", "name").wantOut(t, "service/x")
	f.run(t, "get", "ns").wantErr(t, exitError, "a namespace is no object")
	f.run(t, "get", "gone").wantErr(t, exitError, "pod/gone does not exist")
}

// A word that has no counterpart says how it is done here.
func TestHabitsTellOurWay(t *testing.T) {
	(&fake{}).run(t, "rollout", "status", "web", "--watch").wantErr(t, exitError, "there is no `peer rollout`", "`peer roll OBJ 10%`")
}

// What is wrong with a flag, and with a word below a group, is said in our words.
func TestWrongFlagsAreSaid(t *testing.T) {
	for line, want := range map[string]string{
		"why web -n shop":            "`peer why` has no flag -n: write an object of another namespace as KIND/NAMESPACE/NAME",
		"delete web --force":         "`peer delete` has no flag --force: nothing is forced here",
		"apply --dry-run=client":     "`peer plan -f FILE` tells what would change",
		"wait web --timeout 5":       `--timeout "5": has no unit; write h, m, s or ms behind the number, as in 5s`,
		"invite --ttl 0s":            "--ttl 0s: give more than nothing",
		"top --for 2m":               "--for 2m: the most is 1m",
		"logs web -p":                "`peer logs` has no flag -p: write --previous",
		"logs web --tail x":          `--tail "x": write a whole number`,
		"logs web --tail 9999999999": "the number is too large",
		"machine frob":               "there is no `peer machine frob`; there are drain, label, ls",
		"lab frob":                   "there is no `peer lab frob`",
		"help frob":                  "there is no help about frob",
		"get web@3":                  "peer get pod/web --at 3",
		"get -o frob":                `-o "frob": there are only wide, name, yaml and json`,
	} {
		f := &fake{get: func(*apiv1.GetRequest) (*apiv1.GetResponse, error) { return &apiv1.GetResponse{}, nil }}
		f.run(t, strings.Fields(line)...).wantErr(t, exitError, want)
	}
}

// The values of flags are completed, too.
func TestFlagsAreCompleted(t *testing.T) {
	f := &fake{
		get: func(*apiv1.GetRequest) (*apiv1.GetResponse, error) {
			return &apiv1.GetResponse{Objects: []*apiv1.Object{{Key: web(), Fields: map[string]string{"spec.containers.app.image": `"x"`, "spec.containers.side.image": `"x"`}}}}, nil
		},
		history: func(*apiv1.HistoryRequest) (*apiv1.HistoryResponse, error) {
			return &apiv1.HistoryResponse{Entries: []*apiv1.HistoryEntry{{Key: web(), Rev: "2"}, {Key: web()}, {Key: web(), Rev: "1"}}}, nil
		},
	}
	socket := f.serve(t)
	for line, want := range map[string]string{
		"logs|web|-c|":            "app side",
		"logs|pod|web|-c|s":       "side",
		"get|pods|-n|":            "default",
		"get|-o|":                 "json yaml wide name",
		"machine|ls|-o|w":         "wide",
		"rollback|web|--to|":      "2 1",
		"wait|web|--for|re":       "ready",
		"switch|web|x|--mode|f":   "fail",
		"logs|-c|":                "",
		"verify|pod":              "pods",
		"status|pod|":             "web",
		"roll|w":                  "web",
		"machine|wireguard|m1|x|": "",
	} {
		o := execute(t, socket, typed{args: append([]string{"__complete"}, strings.Split(line, "|")...)})
		lines := strings.Split(o.out, "\n")
		if got := strings.Join(lines[:max(0, len(lines)-2)], " "); got != want {
			t.Errorf("%s completes to %q, want %q", line, got, want)
		}
	}
}

// Who joins without a token is told where there is one.
func TestJoinWithoutAToken(t *testing.T) {
	c := joinCommand()
	c.SetArgs([]string{"10.0.0.1"})
	c.SilenceUsage, c.SilenceErrors = true, true
	if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "`peer invite`") {
		t.Errorf("got %v, want where a token comes from", err)
	}
}
