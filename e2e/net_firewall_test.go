package e2e

import (
	"regexp"
	"testing"
)

// A firewall of the machine that drops what its pods send is named, with the rule and the
// command against it, by the doctor and by the question why; and that command works.
func TestHostFirewallIsNamed(t *testing.T) {
	c := need(t)
	c.remove(t, "behind", "outside")
	c.must(t, 1, "machine", "label", "m2", "wall=yes")
	c.must(t, 1, "machine", "label", "m3", "wall=no")
	t.Cleanup(func() {
		c.must(t, 1, "machine", "label", "m2", "wall-")
		c.must(t, 1, "machine", "label", "m3", "wall-")
	})
	c.apply(t, 1, "alice", set(podSpec{name: "behind", args: serve, require: "wall: yes"}, podSpec{name: "outside", args: serve, require: "wall: no"}))
	behind, outside := c.awaitReady(t, 1, "behind"), c.awaitReady(t, 1, "outside")
	c.awaitFetch(t, "behind", outside.url(t), "hello from outside")

	c.sh(t, 2, "nft 'table inet hostwall { chain forward { type filter hook forward priority 0; policy drop; }; }'")
	t.Cleanup(func() { c.sh(t, 2, "nft delete table inet hostwall") })
	if _, err := get(behind.client(), outside.url(t)); err == nil {
		t.Fatal("the firewall drops nothing")
	}
	a := c.ask(t, 2, "", "doctor")
	remedy := regexp.MustCompile(`policy drop of chain forward in table inet hostwall (?s:.*)run: (nft insert .*)\n`).FindStringSubmatch(a.out)
	if a.code != 1 || remedy == nil {
		t.Fatalf("the doctor says %v", a)
	}
	says := `beside that: firewall on m2: policy drop of chain forward in table inet hostwall drops what this machine forwards for its pods\nto do: On m2, run: nft insert `
	for n := 1; n <= machines; n++ {
		for _, key := range []string{"pod/behind", "machine/m2"} {
			c.awaitText(t, n, key, whyOnly(`^converged: (?s:.*)`+says))
		}
	}
	c.sh(t, 2, remedy[1])
	c.awaitFetch(t, "behind", outside.url(t), "hello from outside")
	if got := fetchFrom(c, 1, behind.url(t)); got != "hello from behind\n" {
		t.Errorf("after %q, into the pod: %q", remedy[1], got)
	}
	if said, _ := c.awaitAnswerOf(t, 1, "pod/behind", whyOnly("^converged: ")); regexp.MustCompile("hostwall").MatchString(said) {
		t.Errorf("it is still said: %s", said)
	}
	// As iptables makes it: the remedy speaks its language.
	c.sh(t, 2, "nft 'table ip filter { chain FORWARD { type filter hook forward priority 0; policy drop; }; }'")
	t.Cleanup(func() { c.sh(t, 2, "nft delete table ip filter") })
	c.awaitText(t, 1, "pod/behind", whyOnly(`policy drop of chain FORWARD in table ip filter (?s:.*) iptables -I FORWARD -i slp\+ -j ACCEPT`))
}
