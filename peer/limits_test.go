package peer

import (
	"strings"
	"testing"
	"time"

	"starling.dev/starling/api"
	"starling.dev/starling/crdt"
	"starling.dev/starling/lifecycle"
	"starling.dev/starling/loops"
)

// same fails unless all machines have one state, and nothing was held back at the last
// moment.
func (c *cluster) same(what string) {
	c.t.Helper()
	want := c.cores[0].core.StateHash()
	for i, n := range c.cores {
		if got := n.core.StateHash(); got != want {
			c.t.Errorf("%s: m%d has another state than m1", what, i+1)
		}
		if n := n.core.Figures()["unreadable"]; n > 0 {
			c.t.Errorf("%s: m%d made %d changes that nobody reads", what, i+1, n)
		}
	}
}

// Whatever a program says of its step, all machines have the same state, and the machine
// goes on writing.
func TestProgramsThatSayTooMuch(t *testing.T) {
	large := strings.Repeat("x", crdt.MaxChange)
	many := lifecycle.Outputs{}
	for i := range crdt.MaxOutputs + 1 {
		many[api.Child("status.loops.audit", strings.Repeat("k", 1+i))] = "1"
	}
	for what, tt := range map[string]struct {
		out  lifecycle.Outputs
		err  error
		says string
	}{
		"outputs":          {lifecycle.Outputs{"status.loops.audit.x": api.Str(large)}, nil, "returned 1 outputs of 262166 bytes"},
		"a failure's":      {nil, &lifecycle.Error{Code: "Bad", Message: "bad", Outputs: lifecycle.Outputs{"status.loops.audit.x": api.Str(large)}}, "returned 1 outputs of 262166 bytes"},
		"many outputs":     {many, nil, "returned 513 outputs"},
		"a long path":      {lifecycle.Outputs{api.Child("status.loops.audit", large): "1"}, nil, "whose name is longer than"},
		"a message":        {nil, &lifecycle.Error{Code: "Bad", Message: "bad: " + large}, "bad: xxx"},
		"what is no UTF-8": {nil, &lifecycle.Error{Code: "Bad\xff", Message: "bad: \xff\xfe"}, "bad: \uFFFD"},
		"no reason":        {nil, &lifecycle.Error{Code: "Bad", Wait: true}, "it gave no reason"},
	} {
		c := newCluster(t, 2)
		h := c.attach("audit")
		h.do = func(loops.ForeignCall) (lifecycle.Outputs, error) { return tt.out, tt.err }
		c.run(3 * time.Second)
		c.write(1, step(t, "audit", auditStep))
		c.write(2, pod(t, "web", hello))
		c.run(2 * time.Second)
		c.same(what)
		for i, n := range c.cores {
			seen, _ := n.core.See(webKey)
			if st, _ := seen.Eval.Step("audit:check"); !strings.Contains(st.Message, tt.says) || len(st.Message) > crdt.MaxMessage {
				t.Errorf("%s: m%d: the step is %s: %.200q", what, i+1, st.State, st.Message)
			}
		}
	}
}

// A note beyond the limits is refused, before anything has an effect anywhere.
func TestNoteThatNobodyReadsIsRefused(t *testing.T) {
	c := newCluster(t, 2)
	c.run(3 * time.Second)
	n := c.cores[0]
	n.core.Step(c.now, Write{Request: 1, Author: "user:alice", Message: strings.Repeat("x", crdt.MaxMessage+1), Edits: []Edit{pod(t, "web", hello)}})
	c.run(2 * time.Second)
	if len(n.answer) != 1 || n.answer[0].Err == nil || n.answer[0].Err.Code != api.TooLarge {
		t.Errorf("it is answered with %v", n.answer)
	}
	if _, there := n.core.See(webKey); there {
		t.Error("the spec was written")
	}
	c.same("a long note")
}
