package linux

import (
	"strings"
	"testing"
)

func TestConntrackIsJudged(t *testing.T) {
	for name, c := range map[string]struct {
		is   conntrack
		want string // in the finding; empty: none
	}{
		"roomy":           {conntrack{entries: 79, room: 100}, ""},
		"tight":           {conntrack{entries: 80, room: 100}, "holds 80 of at most 100"},
		"was full":        {conntrack{entries: 1, room: 100, dropped: 7}, "7 packets were dropped"},
		"evicted in time": {conntrack{entries: 1, room: 100, evicted: 7}, ""},
		"no limit":        {conntrack{entries: 1}, ""},
	} {
		f, ok := c.is.finding()
		if ok != (c.want != "") || !strings.Contains(f.Problem, c.want) {
			t.Errorf("%s: %v %q, want %q", name, ok, f.Problem, c.want)
		}
		if ok && !strings.Contains(f.Remedy, "sysctl -w net.netfilter.nf_conntrack_max=200 ") {
			t.Errorf("%s: the remedy is %q", name, f.Remedy)
		}
	}
}

func TestConntrackTable(t *testing.T) {
	dropped, evicted, err := sumConntrack("entries  clashres drop early_drop icmp_error\n00000001  00000000 0000000a 00000002 00000000\n00000001  00000000 00000001 00000010 00000000\n")
	if err != nil || dropped != 11 || evicted != 18 {
		t.Errorf("got %d dropped, %d evicted (%v), want 11 and 18", dropped, evicted, err)
	}
	if _, _, err := sumConntrack("drop\nzz\n"); err == nil {
		t.Error("nonsense was read")
	}
}
