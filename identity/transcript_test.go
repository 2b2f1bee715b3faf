package identity

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"starling.dev/starling/crdt"
)

// TestTranscripts replays the histories in testdata/transcripts: who said what at which
// replica, what travelled, and what each replica then makes of it. The files are
// rewritten with -rewrite.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		w := newWorld()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := w.run(t, d)
			w.number()
			w.now = w.now.Add(time.Second)
			switch code := CodeOf(err); {
			case err != nil && code != "":
				out = fmt.Sprintf("%s: %v", code, err)
			case err != nil:
				out = fmt.Sprintf("error: %v", err)
			case out == "":
				out = "ok"
			}
			return w.names(strings.TrimSuffix(out, "\n")) + "\n"
		})
	})
}

func (w *world) run(t *testing.T, d *datadriven.TestData) (string, error) {
	arg := func(key string) string {
		if !d.HasArg(key) {
			return ""
		}
		var v string
		d.ScanArgs(t, key, &v)
		return v
	}
	subject := ""
	if len(d.CmdArgs) > 0 && len(d.CmdArgs[0].Vals) == 0 {
		subject = d.CmdArgs[0].Key
	}
	switch d.Cmd {
	case "begin":
		policy := map[string]Policy{"": PolicyOpen, "delegated": PolicyDelegated}[arg("policy")]
		return "", w.begin(subject, policy)
	case "invite":
		return "", w.invite(arg("by"), arg("sponsor"), arg("token"), time.Hour)
	case "join":
		skew, _ := time.ParseDuration(arg("skew"))
		return w.join(joining{
			machine: subject, name: arg("name"), token: arg("token"), at: arg("at"),
			replace: d.HasArg("replace"), silent: d.HasArg("silent"), skew: skew,
		})
	case "wait":
		life, err := time.ParseDuration(subject)
		w.now = w.now.Add(life)
		return "", err
	case "sync":
		return "", w.sync(subject, d.CmdArgs[1].Key)
	case "show":
		return show(w.logs[subject].Snapshot()), nil
	case "mark":
		w.marks[subject] = w.logs[arg("at")].Heads()
		return "", nil
	}
	return w.manage(d, subject, arg)
}

func (w *world) manage(d *datadriven.TestData, subject string, arg func(string) string) (string, error) {
	l := w.logs[arg("at")]
	by := w.key(arg("by"))
	switch d.Cmd {
	case "remove":
		cut := crdt.Heads{}
		for _, text := range strings.Fields(d.Input) {
			var actor string
			var seq uint64
			fmt.Sscanf(strings.Replace(text, ":", " ", 1), "%s %d", &actor, &seq)
			cut[testActor(actor)] = testHead(seq)
		}
		_, err := l.RemoveMachine(by, w.clock(), Remove{Machine: w.id(subject), Reason: "test", Distrust: d.HasArg("distrust"), Cut: cut})
		return "", err
	case "restore":
		_, err := l.RestoreMachine(by, w.clock(), w.id(subject))
		return "", err
	case "delegate":
		_, err := l.DelegateTo(by, w.clock(), w.id(subject))
		return "", err
	case "rename":
		_, err := l.RenameMachine(by, w.clock(), w.id(subject), arg("to"))
		return "", err
	case "permits":
		var seq uint64
		fmt.Sscan(arg("seq"), &seq)
		at := crdt.Place{Machine: w.id(subject), Actor: testActor(arg("actor")), Head: testHead(seq)}
		return "counts", l.Permits(crdt.Change{Author: arg("author"), At: at, Auth: w.marks[arg("auth")]})
	}
	return "", fmt.Errorf("unknown command %q", d.Cmd)
}

func testActor(name string) crdt.ActorID {
	var id crdt.ActorID
	copy(id[:], name)
	return id
}

func testHead(seq uint64) crdt.Head { return crdt.Head{Seq: seq, Hash: crdt.ID{byte(seq)}} }
