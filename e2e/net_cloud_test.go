package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"starling.dev/starling/lab"
)

const cloudName = "e2e-cloud"

// delegated is what the cloud delegates to a machine.
func delegated(machine string) string {
	return fmt.Sprintf("2001:db8:c10d:%s::/80", strings.TrimPrefix(machine, "m"))
}

// cloudLab brings up a lab of two machines whose pods have addresses that a foreign loop
// allocates, and a metadata service that tells the machines their prefixes.
func cloudLab(t *testing.T) (c *cluster, attach func()) {
	t.Helper()
	c = &cluster{dir: need(t).dir, peer: need(t).peer}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
	t.Cleanup(cancel)
	down := func() {
		if err := c.command(ctx, "lab", "down", "--name", cloudName); err != nil {
			t.Error(err)
		}
	}
	down()
	t.Cleanup(down)
	if err := c.command(ctx, "lab", "up", "--name", cloudName, "--nodes", "2", "--cpu", "2", "--memory", "1Gi", "--network", "cloud"); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.lab, err = lab.Open(lab.Config{Name: cloudName, Program: c.peer}); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 2; n++ {
		if err := c.command(ctx, "--socket", c.lab.Socket(n), "image", "load", "-f", c.archive(helloImage)); err != nil {
			t.Fatal(err)
		}
	}
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, delegated(strings.TrimPrefix(r.URL.Path, "/")))
	}))
	t.Cleanup(metadata.Close)
	program := filepath.Join(c.dir, "cloud")
	build := exec.Command("go", "build", "-o", program, "../examples/loops/cloud")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if printed, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the loop: %v\n%s", err, printed)
	}
	return c, func() {
		for n := 1; n <= 2; n++ {
			state := filepath.Join(t.TempDir(), lab.Name(n)+".json")
			p := exec.Command(program, "--socket", c.lab.Socket(n), "--metadata", metadata.URL+"/%s", "--state", state)
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = p.Process.Signal(os.Interrupt); _ = p.Wait() })
		}
	}
}

// In a cluster whose network is cloud, a pod has the address that the cloud's loop
// allocates from its machine's prefix, and waits for it; the other machines reach it
// there, and a pod that moves gets one of its new machine's prefix.
func TestCloud(t *testing.T) {
	c, attach := cloudLab(t)
	for n := 1; n <= 2; n++ {
		c.must(t, 1, "machine", "label", lab.Name(n), "at="+lab.Name(n))
	}
	c.apply(t, 1, "alice", join(answering("one", "m1"), answering("two", "m2")))
	c.awaitWhy(t, 2, "one", `address: the network of this cluster is cloud, and no loop called cloud has given the pod an address; run one`)
	attach()
	one, two := c.awaitReady(t, 1, "one"), c.awaitReady(t, 1, "two")
	for pod, machine := range map[*seen]string{&one: "m1", &two: "m2"} {
		a := netip.MustParseAddr(pod.status("address"))
		if p := netip.MustParsePrefix(delegated(machine)); !p.Contains(a) || pod.status("loops.cloud.address") != a.String() {
			t.Errorf("a pod of %s has address %s (the loop says %s), want one of %s", machine, a, pod.status("loops.cloud.address"), p)
		}
	}
	for _, pair := range [][2]seen{{one, two}, {two, one}} {
		until(t, pair[0].name()+" reaches "+pair[1].name(), func() bool { return pair[0].reaches(t, pair[1]) })
	}
	c.awaitFetch(t, "one", "http://two.default.pod.cluster:8080/", "hello from two")

	c.apply(t, 2, "alice", answering("one", "m2"))
	moved := c.await(t, 1, "one", "on m2", func(s seen) bool { return s.ready() && s.status("machine") == "m2" })
	if a := netip.MustParseAddr(moved.status("address")); !netip.MustParsePrefix(delegated("m2")).Contains(a) {
		t.Errorf("the pod that moved has address %s", a)
	}
	until(t, "two reaches the pod that moved", func() bool { return two.reaches(t, moved) })
}
