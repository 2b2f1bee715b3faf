package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// protoDir holds the wire API, seen from the module's root.
const protoDir = "api/v1"

func main() {
	root := flag.String("root", ".", "the module's root `directory`")
	flag.Parse()
	err := errors.Join(generate(*root, filepath.Join(*root, protoDir)), compile(*root, filepath.Join(*root, programs, "nat64.o")))
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// generate writes the wire API's code under out.
func generate(root, out string) error {
	out, err := filepath.Abs(out) // protoc runs in another directory
	if err != nil {
		return fmt.Errorf("find %s: %w", out, err)
	}
	protoc, err := exec.LookPath("protoc")
	if err != nil {
		return fmt.Errorf("find the protobuf compiler (Debian: protobuf-compiler): %w", err)
	}
	messages, err := plugin(root, "protoc-gen-go")
	if err != nil {
		return err
	}
	services, err := plugin(root, "protoc-gen-connect-go")
	if err != nil {
		return err
	}
	_, err = output(filepath.Join(root, protoDir), protoc, "-I.",
		"--plugin="+messages, "--go_out="+out, "--go_opt=paths=source_relative",
		"--plugin="+services, "--connect-go_out="+out, "--connect-go_opt=paths=source_relative,simple",
		"starling.proto")
	return err
}

// plugin builds a plugin of protoc, of the version in go.mod, and returns its path.
func plugin(root, name string) (string, error) {
	path, err := output(root, "go", "tool", "-n", name)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	return name + "=" + strings.TrimSpace(path), nil
}

func output(dir, program string, args ...string) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stderr = dir, &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
