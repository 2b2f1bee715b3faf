package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// compiler is the line that names protoc's version: any version will do.
var compiler = regexp.MustCompile(`(?m)^// \tprotoc +v.*$`)

func TestGeneratedCodeIsCurrent(t *testing.T) {
	if _, err := exec.LookPath("protoc"); err != nil {
		t.Skip("protoc is not installed (Debian: protobuf-compiler)")
	}
	const root = "../.."
	out := t.TempDir()
	if err := generate(root, out); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"starling.pb.go", "apiv1connect/starling.connect.go"} {
		want, got := read(t, filepath.Join(out, name)), read(t, filepath.Join(root, protoDir, name))
		if got != want {
			t.Errorf("%s/%s is not what starling.proto says; run `make generate` and commit the result", protoDir, name)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return compiler.ReplaceAllString(string(raw), "")
}

// The eBPF object is what its source says. Where clang is another one than the object's,
// the source must at least compile.
func TestEBPFIsCurrent(t *testing.T) {
	if _, err := exec.LookPath("clang"); err != nil {
		t.Skip("clang is not installed (Debian: clang llvm)")
	}
	const root = "../.."
	out := filepath.Join(t.TempDir(), "nat64.o")
	if err := compile(root, out); err != nil {
		t.Fatal(err)
	}
	version, err := clang(root)
	if err != nil {
		t.Fatal(err)
	}
	if version != madeWith {
		t.Logf("the object is clang %s's, and this is %s: bytes are not compared", madeWith, version)
		return
	}
	if read(t, out) != read(t, filepath.Join(root, programs, "nat64.o")) {
		t.Errorf("%s/nat64.o is not what nat64.c says; run `make generate` and commit the result", programs)
	}
}
