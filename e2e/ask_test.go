package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
	"starling.dev/starling/client"
)

// patience bounds every wait: far more than anything should take here.
const patience = 40 * time.Second

// tick is how often a condition that nothing reports is looked at.
const tick = 20 * time.Millisecond

// answer is what a command printed and ended with.
type answer struct {
	out, err string
	code     int
}

func (a answer) String() string {
	return fmt.Sprintf("exit code %d\n%s%s", a.code, a.out, a.err)
}

// ask runs a command of the program at machine n, with an input that may be empty.
func (c *cluster) ask(t *testing.T, n int, input string, args ...string) answer {
	t.Helper()
	return c.program(t, input, append([]string{"--socket", c.lab.Socket(n)}, args...)...)
}

// program runs the program with exactly these arguments.
func (c *cluster) program(t *testing.T, input string, args ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*patience) // also to tidy up
	defer cancel()
	cmd := exec.CommandContext(ctx, c.peer, args...)
	cmd.Stdin = strings.NewReader(input)
	return finish(t, cmd)
}

// finish runs a command to its end.
func finish(t *testing.T, cmd *exec.Cmd) answer {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("run %q: %v", cmd.Args, err)
	}
	return answer{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// must runs a command that has to succeed, and returns what it printed.
func (c *cluster) must(t *testing.T, n int, args ...string) string {
	t.Helper()
	a := c.ask(t, n, "", args...)
	if (args[0] == "why" || args[0] == "status") && a.code >= 3 && a.code <= 5 { // that is where the object stands
		return a.out
	}
	if a.code != 0 {
		t.Fatalf("peer %s at m%d: %v", strings.Join(args, " "), n, a)
	}
	return a.out
}

// apply hands a spec to machine n as a person.
func (c *cluster) apply(t *testing.T, n int, author, spec string) answer {
	t.Helper()
	a := c.ask(t, n, spec, "--as", author, "apply", "-f", "-")
	if a.code != 0 {
		t.Fatalf("apply at m%d: %v", n, a)
	}
	return a
}

// says fails unless the text holds each of the parts, in this order.
func says(t *testing.T, text string, parts ...string) {
	t.Helper()
	rest := text
	for _, p := range parts {
		_, after, found := strings.Cut(rest, p)
		if !found {
			t.Fatalf("this does not say %q (in order):\n%s", p, text)
		}
		rest = after
	}
}

// refuses fails unless the command failed with code 1 and a message with these parts.
func refuses(t *testing.T, a answer, parts ...string) {
	t.Helper()
	refusesWith(t, 1, a, parts...)
}

func refusesWith(t *testing.T, code int, a answer, parts ...string) {
	t.Helper()
	if a.code != code {
		t.Fatalf("this should be refused with exit code %d: %v", code, a)
	}
	says(t, a.err, parts...)
	if strings.Contains(a.err, "goroutine ") || strings.Contains(a.err, "Usage:") {
		t.Errorf("a refusal is one message, not this:\n%s", a.err)
	}
}

// seen is an object as a machine sees it.
type seen struct{ *apiv1.ObjectState }

func (s seen) status(path string) string {
	return api.Fields(s.GetObject().GetStatus()).String("status." + path)
}

func (s seen) number(path string) int64 {
	return api.Fields(s.GetObject().GetStatus()).Int("status." + path)
}

func (s seen) phase() string { return s.GetObject().GetPhase() }

func (s seen) ready() bool {
	return s.GetObject().GetVerdict() == "converged" && s.phase() == api.TargetReady
}

// step returns one step of the object's lifecycle.
func (s seen) step(name string) *apiv1.StepStatus {
	for _, st := range s.GetSteps() {
		if st.GetStep() == name {
			return st
		}
	}
	return nil
}

// await watches an object at machine n until the condition holds.
func (c *cluster) await(t *testing.T, n int, key, what string, met func(seen) bool) seen {
	t.Helper()
	k := keyOf(t, key)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	states, err := c.lab.Client(n).Watch(ctx, &apiv1.WatchRequest{Kind: k.Kind, Namespace: k.Namespace, Name: k.Name})
	if err != nil {
		t.Fatalf("watch %s at m%d: %v", key, n, err)
	}
	defer states.Close()
	last := seen{}
	for states.Receive() {
		last = seen{states.Msg()}
		if met(last) {
			return last
		}
	}
	t.Fatalf("%s is not %s at m%d after %s (%v); it was\n%v\n%v", key, what, n, patience, states.Err(), last, c.ask(t, n, "", "why", key))
	return last
}

func keyOf(t *testing.T, s string) api.Key {
	t.Helper()
	if !strings.Contains(s, "/") {
		s = "pod/" + s
	}
	key, err := api.KeyFromString(s)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// awaitReady waits until the pod is ready and at rest.
func (c *cluster) awaitReady(t *testing.T, n int, key string) seen {
	t.Helper()
	return c.await(t, n, key, "ready", func(s seen) bool { return !s.GetGone() && s.ready() })
}

// awaitRev waits until the pod is ready and at rest with the spec of that rev.
func (c *cluster) awaitRev(t *testing.T, n int, key, rev string) seen {
	t.Helper()
	return c.await(t, n, key, "ready with rev "+rev, func(s seen) bool { return s.ready() && s.GetObject().GetRev() == rev })
}

// current is an object as machine n sees it now.
func (c *cluster) current(t *testing.T, n int, key string) seen {
	t.Helper()
	return c.await(t, n, key, "seen at all", func(seen) bool { return true })
}

func (c *cluster) awaitGone(t *testing.T, n int, key string) {
	t.Helper()
	c.await(t, n, key, "gone", func(s seen) bool { return s.GetGone() })
}

// until waits for a condition that nothing reports.
func until(t *testing.T, what string, met func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience) // also to tidy up
	defer cancel()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for !met() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not after %s", what, patience)
		case <-ticker.C:
		}
	}
}

// remove deletes objects when the test is over, whether it failed or not, so that the
// next one finds the machines empty. It waits for the end of each.
func (c *cluster) remove(t *testing.T, keys ...string) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for _, key := range keys {
			if err := c.delete(ctx, keyOf(t, key)); err != nil {
				t.Errorf("tidy up: %v", err)
			}
		}
	})
}

func (c *cluster) delete(ctx context.Context, k api.Key) error {
	key := client.KeyTo(k)
	_, err := c.lab.Client(1).Apply(ctx, &apiv1.ApplyRequest{
		Edits: []*apiv1.Edit{{Kind: apiv1.EditKind_EDIT_KIND_DELETE, Key: key}}, Author: "tidy",
	})
	if client.Is(err, api.NotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", k, err)
	}
	return c.command(ctx, "--socket", c.lab.Socket(1), "wait", "--for", "deleted", k.String())
}
