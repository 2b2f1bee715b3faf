package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
)

// Each error is one clear message, and the code's remedy where the message has none.
func TestErrorsSayWhatAndWhatToDo(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{refusal(connect.CodeResourceExhausted, api.Errorf(api.DiskFull, "the disk of m1 is full")), "peer: the disk of m1 is full\nFree some space; writing goes on by itself.\n"},
		{refusal(connect.CodeNotFound, api.Errorf(api.NotFound, "pod/web does not exist; list what does with `peer get pods`")), "peer: pod/web does not exist; list what does with `peer get pods`\n"},
		{unknown(), "peer: the peer does not know this command; it runs another version of the program"},
		{connect.NewError(connect.CodeInternal, errors.New("it broke")), "peer: it broke\n"},
	} {
		f := &fake{why: func(*apiv1.WhyRequest) (*apiv1.WhyResponse, error) { return nil, c.err }}
		o := f.run(t, "why", "web")
		if o.code != exitError || o.out != "" || !strings.HasPrefix(o.errs, c.want) {
			t.Errorf("%v: got %+v, want code 1 and %q", c.err, o, c.want)
		}
	}
}

func TestNoPeerIsSaid(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "none.sock")
	execute(t, socket, typed{args: []string{"get"}}).wantErr(t, exitError, "no peer is running at "+socket+"; start one with `peer up`")
	execute(t, socket, typed{args: []string{"get", "--lab", "2"}}).wantErr(t, exitError, "give one of them")
}

func TestWrongWordsAreSaid(t *testing.T) {
	for line, want := range map[string]string{
		"frobnicate":      `unknown command "frobnicate"`,
		"why":             "name the object: peer why OBJ",
		"why a b":         `"a b" would be KIND NAME, and there is no kind "a"`,
		"why pod a b":     `"b" is too much`,
		"why frob/web":    "there is no kind",
		"status --frob":   "`peer status` has no flag --frob",
		"explain":         "name a kind or a field",
		"explain frob":    "begin with a kind",
		"switch web":      "name an object and a target",
		"exec web":        "name a pod and a command",
		"exec web sh -c":  "put -- before the command",
		"forward web":     "name a pod and its ports",
		"forward web a:b": "write two ports",
		"machine drain":   "name one machine",
		"image load":      "name the archive",
		"apply -f":        "flag needs an argument",
	} {
		(&fake{}).run(t, strings.Fields(line)...).wantErr(t, exitError, want)
	}
}

// An interruption is no error to complain about.
func TestInterruptionIsQuiet(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f := &fake{watch: func(ctx context.Context, _ *connect.ServerStream[apiv1.ObjectState]) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}}
	o := execute(t, f.serve(t), typed{args: []string{"wait", "web"}, ctx: ctx})
	if o.code != exitInterrupted || o.errs != "" {
		t.Errorf("an interrupted wait ends with %+v, want code %d and silence", o, exitInterrupted)
	}
}

func TestAuthor(t *testing.T) {
	env := map[string]string{}
	c := &cli{env: func(name string) string { return env[name] }}
	login := c.author()
	if login == "" {
		t.Error("who is logged in has no name")
	}
	env["SUDO_USER"] = "bob"
	if got := c.author(); got != "bob" {
		t.Errorf("through sudo the author is %q, want bob", got)
	}
	c.as = "alice"
	if got := c.author(); got != "alice" {
		t.Errorf("with --as the author is %q, want alice", got)
	}
}
