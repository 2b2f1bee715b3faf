package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Every command that help lists is in the guide, with an example; and every command of
// the guide exists, with the flags that its example has.
func TestGuideAndProgramAgree(t *testing.T) {
	raw, err := os.ReadFile("../../docs/guide/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	guide := string(raw)
	root := rootCommand(&cli{out: io.Discard, errs: io.Discard, env: os.Getenv})
	root.InitDefaultCompletionCmd()
	for _, cmd := range leaves(root) {
		if !strings.Contains(guide, "| `"+cmd.CommandPath()+"` |") {
			t.Errorf("docs/guide/commands.md lacks a line for `%s`", cmd.CommandPath())
		}
	}
	for line := range strings.Lines(guide) {
		cells := strings.Split(line, " | ")
		if path, ok := strings.CutPrefix(cells[0], "| `peer "); ok && len(cells) == 3 {
			checkExample(t, root, strings.TrimSuffix(path, "`"), cells[2])
		}
	}
}

// leaves lists the commands that do something and that help lists.
func leaves(cmd *cobra.Command) []*cobra.Command {
	var list []*cobra.Command
	for _, sub := range cmd.Commands() {
		switch {
		case !sub.IsAvailableCommand() || sub.Name() == "help":
		case sub.HasAvailableSubCommands() && sub.Name() != "completion":
			list = append(list, leaves(sub)...)
		default:
			list = append(list, sub)
		}
	}
	return list
}

func checkExample(t *testing.T, root *cobra.Command, path, example string) {
	t.Helper()
	cmd, _, err := root.Find(strings.Fields(path))
	if err != nil || cmd.CommandPath() != "peer "+path {
		t.Errorf("the guide has `peer %s`, which the program lacks", path)
		return
	}
	if !strings.Contains(example, "peer "+path) {
		t.Errorf("the example of `peer %s` is of another command: %s", path, example)
	}
	before, _, _ := strings.Cut(strings.Trim(example, "`\n |"), " -- ")
	for _, word := range strings.Fields(before) {
		if name, long := strings.CutPrefix(word, "--"); long && cmd.Flag(name) == nil {
			t.Errorf("`peer %s` has no flag %s, which its example has", path, word)
		}
	}
}

// Each of our commands tells how it is used: a sentence, and an example that names it.
func TestHelpIsComplete(t *testing.T) {
	root := rootCommand(&cli{out: io.Discard, errs: io.Discard, env: os.Getenv})
	for _, cmd := range leaves(root) {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("`%s` is described as %q; want a phrase without a full stop", cmd.CommandPath(), cmd.Short)
		}
		if cmd.HasExample() && !strings.Contains(cmd.Example, cmd.CommandPath()) {
			t.Errorf("the example of `%s` is of another command: %s", cmd.CommandPath(), cmd.Example)
		}
	}
}
