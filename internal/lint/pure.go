package lint

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// Pure are the packages that must give the same result for the same input, on every
// peer and in every replay of a simulation.
func Pure() []string {
	return []string{"api", "crdt", "identity", "lifecycle", "sched", "quorum", "rules", "loops", "peer", "netstack", "netstack/xlat", "netstack/dns64"}
}

// Impure are the files of pure packages that meet the world for the rest.
func Impure() []string {
	return []string{
		"peer/loop.go",     // drives the core: the one goroutine, its clock and its queues
		"peer/ask.go",      // how other goroutines ask the core
		"peer/verify.go",   // checks signatures in parallel, before Step
		"identity/keys.go", // key files
	}
}

// Imports by which a package reaches clocks, random sources, processes or the network.
var worldly = []string{"crypto/rand", "net/http", "os", "os/exec", "os/signal", "os/user", "syscall", "golang.org/x/sys/unix", "golang.org/x/sync/errgroup"}

// Functions of package time that read or wait for the clock.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// Functions of math/rand and math/rand/v2 that do not draw from the global source.
var seeded = []string{"New", "NewSource", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "Source", "Source64", "PCG", "ChaCha8", "Zipf"}

// What package net computes without touching the network.
var harmless = []string{"HardwareAddr", "JoinHostPort", "ParseMAC", "SplitHostPort"}

// CheckPure looks for what would make two peers, or two runs, differ.
func (t *Tree) CheckPure(pure, impure []string) (problems []string) {
	for _, f := range t.Files {
		if f.Test() || !slices.Contains(pure, f.Package()) || slices.Contains(impure, f.Path) {
			continue
		}
		c := purity{tree: t, names: map[string]string{}}
		c.imports(f.Syntax)
		ast.Inspect(f.Syntax, c.node)
		problems = append(problems, c.problems...)
	}
	return problems
}

type purity struct {
	tree     *Tree
	names    map[string]string // name of a package in this file -> its path
	problems []string
}

func (c *purity) add(pos token.Pos, what string) {
	c.problems = append(c.problems, c.tree.at(pos, "%s in a pure package; let the caller pass in what it needs", what))
}

func (c *purity) imports(f *ast.File) {
	for _, spec := range f.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		if slices.Contains(worldly, path) {
			c.add(spec.Pos(), "import of "+path)
		}
		name := strings.TrimSuffix(path, "/v2")
		name = name[strings.LastIndexByte(name, '/')+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		c.names[name] = path
	}
}

func (c *purity) node(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		c.add(n.Pos(), "go statement")
	case *ast.SelectStmt:
		c.add(n.Pos(), "select")
	case *ast.ChanType:
		c.add(n.Pos(), "channel")
	case *ast.SendStmt:
		c.add(n.Pos(), "send on a channel")
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			c.add(n.Pos(), "receive from a channel")
		}
	case *ast.SelectorExpr:
		c.selector(n)
	}
	return true
}

func (c *purity) selector(n *ast.SelectorExpr) {
	id, ok := n.X.(*ast.Ident)
	if !ok {
		return
	}
	if path := c.names[id.Name]; touchesWorld(path, n.Sel.Name) {
		c.add(n.Pos(), path+"."+n.Sel.Name)
	}
}

func touchesWorld(path, name string) bool {
	switch path {
	case "time":
		return slices.Contains(clock, name)
	case "math/rand", "math/rand/v2":
		return !slices.Contains(seeded, name)
	case "net":
		return !slices.Contains(harmless, name)
	}
	return false
}
