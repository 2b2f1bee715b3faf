package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"starling.dev/starling/internal/bench/report"
)

// goBench runs benchmarks of packages that are written as Go's own, and makes a row of
// each figure.
func goBench(packages, pattern, lasting string) func(context.Context) ([]report.Row, error) {
	return func(ctx context.Context) ([]report.Row, error) {
		args := append([]string{"test", "-run", "^$", "-bench", pattern, "-benchtime", lasting, "-timeout", "60m"}, strings.Fields(packages)...)
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		rows := parse(out)
		if err != nil {
			return rows, fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
		}
		return rows, nil
	}
}

// parse reads what `go test -bench` prints: a name, how often, then figures with units.
func parse(out []byte) (rows []report.Row) {
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 4 || !strings.HasPrefix(words[0], "Benchmark") {
			continue
		}
		if _, err := strconv.Atoi(words[1]); err != nil {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(words[0], "Benchmark"), "-")
		for i := 2; i+1 < len(words); i += 2 {
			rows = append(rows, report.Row{What: name, Measured: words[i] + " " + words[i+1]})
		}
	}
	return rows
}
