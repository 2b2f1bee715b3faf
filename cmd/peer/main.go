package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() { os.Exit(run(os.Args[1:])) }

// run runs one command until it ends or a signal asks it to.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := &cli{in: os.Stdin, out: os.Stdout, errs: os.Stderr, env: os.Getenv, now: time.Now, color: colored(), width: columns()}
	root := rootCommand(c)
	root.SetArgs(args)
	return c.exit(ctx, root.ExecuteContext(ctx))
}
