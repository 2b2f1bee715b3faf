package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// programs holds the eBPF programs, seen from the module's root.
const programs = "netstack/fastpath"

// compile makes the eBPF object. The same version of clang makes the same bytes anywhere:
// no path of this machine and no header but our own gets into them.
func compile(root, out string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return fmt.Errorf("find %s: %w", out, err)
	}
	dir, err := filepath.Abs(filepath.Join(root, programs, "ebpf"))
	if err != nil {
		return fmt.Errorf("find %s: %w", programs, err)
	}
	whole := out + ".debug"
	defer os.Remove(whole)
	_, err = output(dir, "clang", "-target", "bpfel", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-nostdinc",
		"-fdebug-compilation-dir=.", "-ffile-prefix-map="+dir+"=.", "-c", "nat64.c", "-o", whole)
	if err != nil {
		return fmt.Errorf("compile the eBPF programs (Debian: clang): %w", err)
	}
	if _, err = output(dir, "llvm-strip", "-g", whole, "-o", out); err != nil { // BTF stays
		return fmt.Errorf("strip the eBPF programs (Debian: llvm): %w", err)
	}
	return nil
}

// madeWith is the version of clang that the committed object comes from: Debian 12's.
// Another one may choose other instructions.
const madeWith = "14"

var clangVersion = regexp.MustCompile(`clang version (\d+)\.`)

// clang returns the major version of the installed one.
func clang(dir string) (string, error) {
	out, err := output(dir, "clang", "--version")
	if err != nil {
		return "", fmt.Errorf("find clang: %w", err)
	}
	m := clangVersion.FindStringSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("clang --version says %q", strings.TrimSpace(out))
	}
	return m[1], nil
}
