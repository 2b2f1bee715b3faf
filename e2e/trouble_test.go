package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDataDirectoryThatCantBeUsed(t *testing.T) {
	c := need(t)
	g := c.guest(t)
	g.start(t, "up", "--cluster=solo")

	refuses(t, g.run(t, g.with("up")...), g.data, "in use")
	refuses(t, g.join(t, c.invite(t, 1)), g.data, "in use")
	if code := g.stop(t, syscall.SIGTERM); code != 0 {
		t.Errorf("SIGTERM ends a peer with exit code %d:\n%s", code, g.log.String())
	}

	refuses(t, g.run(t, g.with("up", "--machine-id=another")...), g.data, "another ID", "join as a new machine")

	file := filepath.Join(g.data, "store", "FORMAT")
	was, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(was), "version: 1", "version: 99", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	refuses(t, g.run(t, g.with("up")...), g.data, "newer version", "format 99", "upgrade this program")
	if err := os.WriteFile(file, was, 0o600); err != nil {
		t.Fatal(err)
	}
	g.start(t, "up") // nothing of that has done any harm
	if a := g.ask(t, "machine", "ls"); a.code != 0 || !strings.Contains(a.out, g.name) {
		t.Errorf("after the trouble: %v", a)
	}
}

func TestPeerNeedsRoot(t *testing.T) {
	c := need(t)
	dir := filepath.Join(t.TempDir(), "data")
	cmd := exec.CommandContext(t.Context(), c.peer, "up", "--data="+dir, "--listen-socket="+dir+".sock")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	cmd.Dir = "/"
	refuses(t, finish(t, cmd), "root", "sudo", "peer install")
	if _, err := os.Stat(dir); err == nil {
		t.Error("it made a data directory all the same")
	}
}

func TestPeerNeedsContainerd(t *testing.T) {
	c := need(t)
	g := c.guest(t)
	refuses(t, g.run(t, g.with("up", "--containerd=/nonexistent/containerd.sock")...),
		"no containerd answers at /nonexistent/containerd.sock", "start it")

	// A machine where containerd neither runs nor is installed.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/usr/bin/unshare", "--mount", "/bin/sh", "-c",
		`[ ! -d /run/containerd ] || mount -t tmpfs none /run/containerd || exit 99; PATH=/nonexistent; exec "$0" "$@"`)
	cmd.Args = append(cmd.Args, append([]string{c.peer}, g.with("up", "--containerd=")...)...)
	refuses(t, g.finish(t, cmd), "there is no containerd on this machine", "apt-get install containerd")
}

// tmpfsSize lets a store start, and be filled within a moment.
const tmpfsSize = 160 << 20

func TestFullDiskStopsWritingUntilThereIsRoom(t *testing.T) {
	c := need(t)
	g := c.guestOnTmpfs(t)
	g.start(t, "up", "--cluster=solo")
	if a := g.ask(t, "machine", "label", g.name, "disk=free"); a.code != 0 {
		t.Fatal(a)
	}
	ballast := filepath.Join(g.data, "ballast")
	fill(t, ballast)
	refuses(t, g.ask(t, "machine", "label", g.name, "disk=full"), "MiB free", "free some space")
	if a := g.ask(t, "get", "machine/"+g.name, "-o", "yaml"); a.code != 0 || !strings.Contains(a.out, "disk: free") {
		t.Errorf("what is there can be read while the disk is full: %v", a)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	until(t, "writing goes on by itself", func() bool { return g.ask(t, "machine", "label", g.name, "disk=mended").code == 0 })

	// A peer that meets a full disk at its start says so.
	g.stop(t, syscall.SIGTERM)
	if err := os.RemoveAll(filepath.Join(g.data, "store", "reserve")); err != nil {
		t.Fatal(err)
	}
	fill(t, ballast)
	refuses(t, g.run(t, g.with("up")...), g.data, "MiB free", "free some space")
}

// fill takes nearly all that is left of a file system.
func fill(t *testing.T, path string) {
	t.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(path), &fs); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, int64(fs.Bavail)*fs.Bsize-1<<20); err != nil {
		t.Fatal(err)
	}
}

// Each of these changes nothing.
func TestSpecsThatAreRefused(t *testing.T) {
	c := need(t)
	good := podSpec{name: "refused", args: serve}.String()
	for name, bad := range map[string]struct {
		spec string
		says []string
	}{
		"unknown field": {
			strings.Replace(good, "image:", "imagee:", 1),
			[]string{"standard input", ":6:7: spec.containers.app.imagee: there is no such field; did you mean image?", "imagee: localhost/hello:1", "      ^"},
		},
		"wrong unit": {
			strings.Replace(good, "spec:\n", "spec:\n  grace: 5 parsecs\n", 1),
			[]string{":4:10: spec.grace:", "5 parsecs", "^"},
		},
		"no YAML":      {good + "  oops: [", []string{"standard input:", "this is not YAML", "^"}},
		"unknown kind": {strings.Replace(good, "Pod", "Pood", 1), []string{"Pood", "did you mean Pod"}},
		"no name":      {strings.Replace(good, "name: refused\n", "", 1), []string{"name"}},
		"over the limit": {
			strings.Replace(good, "spec:\n", "spec:\n  labels: {big: "+strings.Repeat("x", 1<<20)+"}\n", 1),
			[]string{"bytes", "the limit is", "volume"},
		},
		"one good and one bad": {good + "---\n" + strings.Replace(good, "image:", "imagee:", 1), []string{":16:7", "imagee", "did you mean image?"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, verb := range []string{"apply", "plan"} {
				refuses(t, c.ask(t, 2, bad.spec, verb, "-f", "-"), bad.says...)
			}
			refuses(t, c.ask(t, 1, "", "get", "refused"), "pod/refused does not exist")
		})
	}
	refuses(t, c.program(t, "", "--lab", labName+"/9", "get"), "machine 9 of lab", "peer lab status")
	refuses(t, c.ask(t, 1, "", "run", "refused", "--image", helloImage, "--memory", "lots"), "memory", `"lots" is not a size`)
	refuses(t, c.ask(t, 1, "", "delete", "refused"), "pod/refused does not exist")
}
