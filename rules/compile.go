package rules

import (
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"

	"starling.dev/starling/api"
)

// Limits of an expression and of one evaluation. They belong to the level, as the
// environment does: peers that bound evaluations otherwise would judge otherwise.
const (
	maxNodes = 200
	maxDepth = 30
	maxCost  = 100_000
)

// Set is the compiled rules of one kind. It is immutable.
type Set struct {
	catalog *api.Catalog
	kind    string
	rules   []rule
}

type rule struct {
	name, message string
	field         string // the problem's path
	program       cel.Program
}

// Compile compiles the rules of a Kind object for the table that it defines, and lists
// what is wrong with them. Rules that are wrong are left out.
func Compile(kind api.Kind, f api.Fields) (*Set, []api.Problem) {
	s := &Set{catalog: api.Builtin().With(kind), kind: kind.Name}
	names := f.Keys("spec.rules")
	if len(names) == 0 {
		return s, nil
	}
	env, err := environment()
	if err != nil {
		return s, []api.Problem{{Path: "spec.rules", Message: err.Error()}}
	}
	var problems []api.Problem
	for _, name := range names {
		at := api.Child("spec.rules", name)
		r, err := s.compile(env, f.String(at+".check"))
		if err != nil {
			problems = append(problems, api.Problem{Path: at + ".check", Message: err.Error()})
			continue
		}
		r.name, r.message = name, f.String(at+".message")
		if field := f.String(at + ".field"); field != "" {
			r.field = field
		}
		s.rules = append(s.rules, r)
	}
	return s, problems
}

// environment is that of level 1.
func environment() (*cel.Env, error) {
	env, err := cel.NewCustomEnv(
		cel.StdLib(), cel.DefaultUTCTimeZone(true), cel.EagerlyValidateDeclarations(true),
		cel.ParserExpressionSizeLimit(api.MaxCheck), cel.ParserRecursionLimit(maxDepth),
		cel.ExpressionNodeLimit(maxNodes), cel.ExpressionNestingDepthLimit(maxDepth),
		cel.Variable("spec", cel.MapType(cel.StringType, cel.DynType)),
	)
	if err != nil {
		return nil, fmt.Errorf("make the environment of rules: %w", err)
	}
	return env, nil
}

func (s *Set) compile(env *cel.Env, expression string) (rule, error) {
	checked, issues := env.Compile(expression)
	if issues.Err() != nil {
		e := issues.Errors()[0]
		return rule{}, fmt.Errorf("character %d: %s", e.Location.Column()+1, e.Message)
	}
	if t := checked.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return rule{}, fmt.Errorf("the expression gives an %s; write one that is true for what is valid", t)
	}
	fields, err := s.inspect(checked.NativeRep().Expr())
	if err != nil {
		return rule{}, err
	}
	program, err := env.Program(checked, cel.CostLimit(maxCost))
	if err != nil {
		return rule{}, fmt.Errorf("compile the expression: %w", err)
	}
	r := rule{program: program, field: "spec"}
	if len(fields) > 0 {
		r.field = fields[0]
	}
	return r, nil
}

// inspect finds the fields that an expression reads, and refuses those that the kind does
// not have, and whatever machines might compute differently.
func (s *Set) inspect(e ast.Expr) (fields []string, err error) {
	inner := map[int64]bool{} // selects that are part of a longer one
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if err != nil {
			return
		}
		if err = portable(e); err != nil || inner[e.ID()] {
			return
		}
		path, ok := pathOf(e, inner)
		if !ok {
			return
		}
		if why := s.catalog.CheckPattern(s.kind, path); why != "" {
			err = fmt.Errorf("%s", why)
			return
		}
		fields = append(fields, path)
	}))
	return fields, err
}

// pathOf reads spec.a.b off a chain of selects.
func pathOf(e ast.Expr, inner map[int64]bool) (string, bool) {
	var segments []string
	for e.Kind() == ast.SelectKind {
		segments = append(segments, e.AsSelect().FieldName())
		e = e.AsSelect().Operand()
		inner[e.ID()] = true
	}
	if e.Kind() != ast.IdentKind || e.AsIdent() != "spec" || len(segments) == 0 {
		return "", false
	}
	slices.Reverse(segments)
	return api.Join(append([]string{"spec"}, segments...)...), true
}

// portable refuses what could differ between machines.
func portable(e ast.Expr) error {
	switch e.Kind() {
	case ast.LiteralKind:
		if _, fraction := e.AsLiteral().(types.Double); fraction {
			return fmt.Errorf("%v is a fraction, and rules compute with whole numbers; use a smaller unit", e.AsLiteral().Value())
		}
	case ast.CallKind:
		call := e.AsCall()
		name := call.FunctionName()
		if name == "double" {
			return fmt.Errorf("double() makes a fraction, and rules compute with whole numbers; use int()")
		}
		if strings.HasPrefix(name, "get") && len(call.Args()) > 0 {
			return fmt.Errorf("%s() with a time zone depends on the machine; leave the zone out for UTC", name)
		}
	}
	return nil
}
