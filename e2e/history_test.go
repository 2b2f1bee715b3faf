package e2e

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	apiv1 "starling.dev/starling/api/v1"
)

func TestRollbackBringsTheExactOldSpecBack(t *testing.T) {
	c := need(t)
	c.remove(t, "back")
	pod := podSpec{name: "back", args: serve, memory: "32Mi", more: "  labels: {tier: front}\n"}
	c.apply(t, 1, "alice", pod.String())
	c.awaitReady(t, 1, "back")
	old := c.specOf(t, 1, "back")

	pod.args, pod.memory, pod.cpu, pod.more = `[--listen, "[::]:8081"]`, "", "100m", "  labels: {tier: back, new: thing}\n"
	c.apply(t, 2, "bob", pod.String())
	c.awaitRev(t, 2, "back", "2")
	if same := differences(old, c.specOf(t, 2, "back")); len(same) < 4 {
		t.Fatalf("the edit changed only %v", same)
	}
	for n := 1; n <= machines; n++ {
		if d := differences(old, jsonSpec(t, c.must(t, n, "get", "back", "--at", "1", "-o", "json"))); len(d) > 0 {
			t.Errorf("rev 1 differs from what was applied in %v, as m%d has it", d, n)
		}
	}
	says(t, c.must(t, 3, "--as", "carol", "rollback", "back"), "pod/back changed (rev 3)")
	c.awaitRev(t, 3, "back", "3")
	if d := differences(old, c.specOf(t, 3, "back")); len(d) > 0 {
		t.Errorf("after the rollback the spec differs from the old one in %v", d)
	}
	says(t, c.must(t, 3, "exec", "back", "--", "/bin/hello", "--get", "http://[::1]:8080/"), "hello from back")
	// A rollback is a rev like any other, and can be taken back itself.
	c.must(t, 1, "rollback", "back", "--to", "2")
	c.awaitRev(t, 1, "back", "4")
	if got := c.specOf(t, 1, "back")["spec.labels.new"]; got != `"thing"` {
		t.Errorf("rev 2 came back with spec.labels.new = %s", got)
	}
}

// jsonSpec flattens the spec of `get -o json` to values by path.
func jsonSpec(t *testing.T, raw string) map[string]string {
	t.Helper()
	var object struct{ Spec map[string]any }
	if err := json.Unmarshal([]byte(raw), &object); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	flat := map[string]string{}
	flatten(t, flat, "spec", object.Spec)
	return flat
}

func flatten(t *testing.T, into map[string]string, at string, node map[string]any) {
	t.Helper()
	for key, value := range node {
		if below, ok := value.(map[string]any); ok {
			flatten(t, into, at+"."+key, below)
			continue
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		into[at+"."+key] = string(text)
	}
}

var changeSet = regexp.MustCompile(`change set ([0-9a-f]{12})`)

// One apply of two objects is one change set, and is taken back as one.
func TestRollbackOfAChangeSetOverTwoObjects(t *testing.T) {
	c := need(t)
	c.remove(t, "set-a", "set-b")
	a, b := podSpec{name: "set-a", args: serve}, podSpec{name: "set-b", args: serve}
	c.apply(t, 1, "alice", set(a, b))
	c.awaitReady(t, 1, "set-a")
	c.awaitReady(t, 1, "set-b")
	oldA, oldB := c.specOf(t, 1, "set-a"), c.specOf(t, 1, "set-b")

	a.args, b.image = `[--listen, "[::]:8081"]`, helloAgain
	made := c.apply(t, 2, "bob", set(a, b))
	says(t, made.out, "pod/set-a changed (rev 2)", "pod/set-b changed (rev 2)")
	name := changeSet.FindStringSubmatch(made.err)
	if name == nil {
		t.Fatalf("apply names no change set: %v", made)
	}
	c.awaitRev(t, 3, "set-a", "2")
	c.awaitRev(t, 3, "set-b", "2")
	says(t, c.must(t, 3, "rollback", name[1]), "pod/set-a changed (rev 3)", "pod/set-b changed (rev 3)")
	c.awaitRev(t, 3, "set-a", "3")
	c.awaitRev(t, 3, "set-b", "3")
	if d := append(differences(oldA, c.specOf(t, 3, "set-a")), differences(oldB, c.specOf(t, 3, "set-b"))...); len(d) > 0 {
		t.Errorf("after the rollback of the change set %v differ", d)
	}
	refuses(t, c.ask(t, 3, "", "rollback", "0123456789ab"), "there is no change set", "0123456789ab", "peer history")
}

// A deletion is a change like any other.
func TestRollbackUndeletes(t *testing.T) {
	c := need(t)
	c.remove(t, "undead")
	c.apply(t, 1, "alice", podSpec{name: "undead", args: serve, memory: "32Mi"}.String())
	before := c.awaitReady(t, 1, "undead")
	old := c.specOf(t, 1, "undead")
	c.must(t, 2, "--as", "bob", "delete", "undead")
	c.awaitGone(t, 1, "undead")
	if alive(before.number("containers.app.pid")) {
		t.Error("a deleted pod still runs")
	}
	refuses(t, c.ask(t, 3, "", "get", "undead"), "pod/undead does not exist")

	c.must(t, 3, "rollback", "undead")
	c.awaitReady(t, 2, "undead")
	if d := differences(old, c.specOf(t, 2, "undead")); len(d) > 0 {
		t.Errorf("it came back with another spec: %v", d)
	}
}

func TestHistoryNamesTheAuthors(t *testing.T) {
	c := need(t)
	c.remove(t, "storied")
	pod := podSpec{name: "storied", args: serve}
	c.apply(t, 1, "alice", pod.String())
	c.awaitReady(t, 1, "storied")
	pod.image = helloAgain
	if a := c.ask(t, 3, pod.String(), "--as", "bob", "apply", "-f", "-", "-m", "newer image"); a.code != 0 {
		t.Fatal(a)
	}
	c.awaitRev(t, 2, "storied", "2")
	c.must(t, 2, "--as", "carol", "delete", "storied")
	c.awaitGone(t, 2, "storied")
	for n := 1; n <= machines; n++ {
		says(t, c.must(t, n, "history", "storied", "--diff"), "user:carol", "user:bob", "newer image",
			`~ spec.containers.app.image: "localhost/hello:1" -> "localhost/hello:2"`, "user:alice")
	}
	if got := c.must(t, 1, "history", "storied", "--by", "user:b*"); strings.Contains(got, "alice") || !strings.Contains(got, "bob") {
		t.Errorf("--by user:b* lists\n%s", got)
	}
	if got := c.must(t, 2, "history", "--by", "user:*", "--since", "1ms"); strings.Contains(got, "storied") {
		t.Errorf("--since 1ms lists\n%s", got)
	}
	if got := c.must(t, 2, "history", "--by", "user:carol", "--since", "1h", "--diff"); !strings.Contains(got, "pod/storied") || !strings.Contains(got, "(deleted)") {
		t.Errorf("the cluster's history by user:carol lists\n%s", got)
	}
	if got := c.must(t, 1, "history", "--not-by", "loop:*"); strings.Contains(got, "loop:") || !strings.Contains(got, "user:alice") {
		t.Errorf("--not-by loop:* lists\n%s", got)
	}
	refuses(t, c.ask(t, 1, "", "--as", "not a name", "delete", "storied"), `author "not a name"`)
}

// Events tell what loops did, on all machines, wherever they are asked for.
func TestEventsTellWhatLoopsDid(t *testing.T) {
	c := need(t)
	c.remove(t, "eventful")
	c.apply(t, 1, "alice", podSpec{name: "eventful", args: serve}.String())
	s := c.awaitReady(t, 3, "eventful")
	for n := 1; n <= machines; n++ {
		c.awaitReady(t, n, "eventful")
		says(t, c.must(t, n, "events", "eventful"), "schedule    done", "admit       done     on "+s.status("machine"), "container   done     on "+s.status("machine"))
	}
	if got := c.must(t, 1, "events", "eventful", "--by", "loop:i*", "--by", "loop:readiness", "--not-by", "loop:read*"); !strings.Contains(got, "image ") || strings.Contains(got, "ready ") || strings.Contains(got, "schedule ") {
		t.Errorf("the events by loop:i* are\n%s", got)
	}
	follow, err := c.lab.Client(2).Events(t.Context(), &apiv1.EventsRequest{Key: s.GetObject().GetKey(), Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer follow.Close()
	c.must(t, 1, "restart", "eventful")
	for follow.Receive() {
		if e := follow.Msg(); e.GetStep() == "container" && e.GetPhase() == "done" && e.GetAttempt() == 2 {
			return
		}
	}
	t.Errorf("events -f ended before it told of the restart: %v", follow.Err())
}
