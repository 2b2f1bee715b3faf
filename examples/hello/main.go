// Hello is the example that the guides and the tests run: a small HTTP server
// without dependencies. It greets, names the machine that it believes to be, and
// can be told to fail in each of the ways in which a workload fails.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	listen    string
	exitCode  int
	exitAfter time.Duration
	allocate  int64
	lines     int
	failReady bool
	get       string
}

func main() {
	opts, err := parse(os.Args[1:])
	if err != nil {
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	do := run
	if opts.get != "" {
		do = fetch
	}
	code, err := do(ctx, opts, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "hello:", err)
	}
	os.Exit(code)
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("hello", flag.ContinueOnError)
	flags.StringVar(&o.listen, "listen", "[::]:8080", "`address` to serve HTTP on; empty for none")
	flags.IntVar(&o.exitCode, "exit-code", 0, "`code` to exit with after --exit-after")
	flags.DurationVar(&o.exitAfter, "exit-after", -1, "exit after this `duration`; negative for never")
	flags.Int64Var(&o.allocate, "allocate", 0, "`bytes` of memory to fill at the start")
	flags.IntVar(&o.lines, "lines", 0, "print so many `lines` at the start")
	flags.BoolVar(&o.failReady, "fail-ready", false, "answer /ready with 503")
	flags.StringVar(&o.get, "get", "", "instead of serving, print what `URL` answers")
	return o, flags.Parse(args)
}

// getTimeout bounds --get as a whole.
const getTimeout = 5 * time.Second

// fetch is the image's client, since there is no other in it: it prints an answer,
// and returns 0 if that is a good one.
func fetch(ctx context.Context, o options, out io.Writer) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, getTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, o.get, nil)
	if err != nil {
		return 1, fmt.Errorf("ask %s: %w", o.get, err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 1, err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(out, answer.Body); err != nil {
		return 1, fmt.Errorf("read the answer of %s: %w", o.get, err)
	}
	if answer.StatusCode != http.StatusOK {
		return 1, fmt.Errorf("%s answered %s", o.get, answer.Status)
	}
	return 0, nil
}

// run serves until ctx is done or the time to exit has come, and returns the exit
// code.
func run(ctx context.Context, o options, out io.Writer) (int, error) {
	memory := fill(o.allocate)
	defer func() { _ = memory }()
	for i := range o.lines {
		fmt.Fprintf(out, "hello: line %d\n", i+1)
	}
	failed := make(chan error, 1)
	if o.listen != "" {
		listener, err := net.Listen("tcp", o.listen)
		if err != nil {
			return 1, fmt.Errorf("listen on %s: %w", o.listen, err)
		}
		server := &http.Server{Handler: handler(o), ReadHeaderTimeout: 10 * time.Second}
		defer server.Close()
		fmt.Fprintf(out, "hello: listening on %s\n", listener.Addr())
		go func() { failed <- server.Serve(listener) }()
	}
	var exit <-chan time.Time
	if o.exitAfter >= 0 {
		exit = time.After(o.exitAfter)
	}
	select {
	case <-ctx.Done():
		fmt.Fprintln(out, "hello: asked to stop")
		return 0, nil
	case <-exit:
		fmt.Fprintf(out, "hello: exiting with code %d\n", o.exitCode)
		return o.exitCode, nil
	case err := <-failed:
		if errors.Is(err, http.ErrServerClosed) {
			return 0, nil
		}
		return 1, fmt.Errorf("serve HTTP: %w", err)
	}
}

// handler answers / with the greeting and /ready with the state of health.
func handler(o options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		host, err := os.Hostname()
		if err != nil {
			host = "an unnamed host"
		}
		fmt.Fprintf(w, "%s from %s\n", greeting(), host)
	})
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, r *http.Request) {
		if o.failReady {
			http.Error(w, "told not to be ready", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	return mux
}

func greeting() string {
	if g := os.Getenv("GREETING"); g != "" {
		return g
	}
	return "hello"
}

// fill takes n bytes of memory and touches every page, so that they count.
func fill(n int64) []byte {
	if n <= 0 {
		return nil
	}
	memory := make([]byte, n)
	for i := int64(0); i < n; i += 4096 {
		memory[i] = 1
	}
	return memory
}
