package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var quoted = regexp.MustCompile("`peer ([^`]*)(?:`|$)")

// What the program tells people to type exists: every command, and every flag of it, that
// stands between backquotes in a text of any package.
func TestAdviceCanBeFollowed(t *testing.T) {
	root := rootCommand(&cli{env: func(string) string { return "" }})
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	seen := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, _ := strconv.Unquote(lit.Value)
				for _, m := range quoted.FindAllStringSubmatch(text, -1) {
					seen++
					checkAdvice(t, root, path, m[1])
				}
			}
			return true
		})
		return nil
	})
	if err != nil || seen < 100 {
		t.Errorf("%d commands were found in texts: %v", seen, err)
	}
}

func checkAdvice(t *testing.T, root *cobra.Command, path, line string) {
	t.Helper()
	line, _, _ = strings.Cut(line, " | ")
	line, _, _ = strings.Cut(line, " -- ")
	args := strings.Fields(line)
	if len(args) == 0 || strings.HasPrefix(args[0], "-") || strings.HasPrefix(args[0], "%") {
		return // a flag of every command, or a word that is filled in
	}
	cmd, rest, err := root.Find(args)
	if err != nil || cmd == root || cmd.Hidden || cmd.HasAvailableSubCommands() && len(rest) > 0 && rest[0][0] != '%' {
		t.Errorf("%s: there is no `peer %s`", path, line)
		return
	}
	for _, arg := range rest {
		name, long := strings.CutPrefix(arg, "--")
		if name, _, _ = strings.Cut(name, "="); long && name != "" && name[0] != '%' && cmd.Flag(name) == nil {
			t.Errorf("%s: `peer %s` has no flag --%s", path, line, name)
		}
	}
}
