package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// tool finds a program of a Debian package, or skips the test.
func tool(t *testing.T, program, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%s is not installed (Debian: %s)", program, pkg)
	}
	return path
}

func TestVagrantfileIsValid(t *testing.T) {
	vagrant := tool(t, "vagrant", "vagrant")
	dir := t.TempDir() // vagrant writes beside the Vagrantfile
	raw, err := os.ReadFile(filepath.Join(root, "Vagrantfile"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "Vagrantfile"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	validate := func(machines string) (string, error) {
		cmd := exec.Command(vagrant, "validate")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "VAGRANT_HOME="+filepath.Join(dir, "home"), "VAGRANT_DEFAULT_PROVIDER=libvirt", "STARLING_MACHINES="+machines)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := validate("5"); err != nil {
		t.Errorf("vagrant validate: %v\n%s", err, out)
	}
	if out, err := validate("0"); err == nil || !strings.Contains(out, "give a number from 1 to 50") {
		t.Errorf("with STARLING_MACHINES=0 it says, with error %v:\n%s", err, out)
	}
}

func TestShellScripts(t *testing.T) {
	shellcheck := tool(t, "shellcheck", "shellcheck")
	tree, err := module()
	if err != nil {
		t.Fatal(err)
	}
	var scripts []string
	for _, text := range tree.Texts {
		if first, _, _ := strings.Cut(text.Body, "\n"); strings.HasPrefix(first, "#!") && strings.HasSuffix(first, "sh") {
			scripts = append(scripts, filepath.Join(root, text.Path))
		}
	}
	if len(scripts) < 3 {
		t.Fatalf("found the scripts %q only", scripts)
	}
	if out, err := exec.Command(shellcheck, scripts...).CombinedOutput(); err != nil {
		t.Errorf("shellcheck: %v\n%s", err, out)
	}
}
