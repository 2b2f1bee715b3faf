package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestExecEndsWithTheCommandsExitCode(t *testing.T) {
	c := need(t)
	c.remove(t, "execed")
	c.apply(t, 1, "alice", podSpec{name: "execed", args: serve}.String())
	c.awaitReady(t, 1, "execed")
	for n := 1; n <= machines; n++ { // on its own machine, and passed on to it
		a := c.ask(t, n, "", "exec", "execed", "--", "/bin/hello", "--listen=", "--exit-after", "0s", "--exit-code", "23")
		if a.code != 23 || a.out != "hello: exiting with code 23\n" {
			t.Errorf("exec at m%d: %v", n, a)
		}
	}
	refusesWith(t, 127, c.ask(t, 1, "", "exec", "execed", "--", "/bin/nosuch"), "/bin/nosuch", "container app")
	refuses(t, c.ask(t, 1, "", "exec", "nobody", "--", "/bin/hello"), "pod/nobody does not exist")
}

// listening is what the program prints when it starts.
const listening = "hello: listening on [::]:8080"

func TestLogsAreFollowedThroughRestarts(t *testing.T) {
	c := need(t)
	c.remove(t, "logged")
	c.apply(t, 1, "alice", podSpec{name: "logged", args: serve}.String())
	c.awaitReady(t, 1, "logged")
	until(t, "the first line", func() bool { return c.must(t, 1, "logs", "logged") != "" })
	for n := 1; n <= machines; n++ {
		if got := c.must(t, n, "logs", "logged"); got != listening+"\n" {
			t.Errorf("logs at m%d: %q", n, got)
		}
	}
	lines := c.follow(t, 3, "logged")
	if got := <-lines; got != listening {
		t.Errorf("logs -f begins with %q", got)
	}
	c.must(t, 2, "restart", "logged")
	for heard := map[string]bool{}; !heard[listening] || !heard["hello: asked to stop"]; {
		line, more := <-lines
		if !more {
			t.Fatalf("logs -f ended; after the restart it told %v", heard)
		}
		heard[line] = true
	}
	c.awaitReady(t, 1, "logged")
	if got := c.must(t, 2, "logs", "logged", "--previous"); got != listening+"\nhello: asked to stop\n" {
		t.Errorf("logs --previous: %q", got)
	}
	if got := c.must(t, 2, "logs", "logged", "--tail", "1", "-t"); !regexp.MustCompile(`^\d{4}-\d\d-\d\dT[\d:.]+Z hello: `).MatchString(got) || strings.Count(got, "\n") != 1 {
		t.Errorf("logs --tail 1 -t: %q", got)
	}
}

// follow runs `logs -f` until the test ends; the channel ends with the command.
func (c *cluster) follow(t *testing.T, n int, pod string) <-chan string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, c.peer, "--lab", fmt.Sprintf("%s/%d", labName, n), "logs", "-f", pod)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		defer cmd.Wait()
		for s := bufio.NewScanner(out); s.Scan(); {
			select {
			case lines <- s.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}

// forwarding is the line that tells where a forwarded port is.
var forwarding = regexp.MustCompile(`127\.0\.0\.1:(\d+)`)

func TestForwardCarriesConnections(t *testing.T) {
	c := need(t)
	c.remove(t, "forwarded")
	c.apply(t, 1, "alice", podSpec{name: "forwarded", args: serve}.String())
	c.awaitReady(t, 1, "forwarded")
	for n := 1; n <= machines; n++ {
		url := c.forward(t, n, "forwarded", "0:8080")
		for range 3 {
			if got := fetch(url); got != "hello from forwarded\n" {
				t.Errorf("through m%d: %q", n, got)
			}
		}
	}
}

// forward runs `forward` until the test ends, and returns the URL that it opened.
func (c *cluster) forward(t *testing.T, n int, pod, ports string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, c.peer, "--lab", fmt.Sprintf("%s/%d", labName, n), "forward", pod, ports)
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		reader.Close()
		_ = cmd.Wait() // it ends by the signal that cancel sent
	})
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		t.Fatalf("forward at m%d says nothing: %v", n, err)
	}
	port := forwarding.FindStringSubmatch(line)
	if port == nil {
		t.Fatalf("forward at m%d names no address: %q", n, line)
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }() // ends with the reader
	return "http://127.0.0.1:" + port[1] + "/"
}

// fetch is what a URL answers, or the error.
func fetch(url string) string {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func TestWaitTellsWhyWhenItsTimeIsOver(t *testing.T) {
	c := need(t)
	c.remove(t, "awaited")
	c.apply(t, 1, "alice", podSpec{name: "awaited", image: "localhost/nosuch:1"}.String())
	a := c.ask(t, 2, "", "wait", "awaited", "--timeout", "500ms")
	if a.code != 124 {
		t.Errorf("wait: %v", a)
	}
	says(t, a.err, "pod/awaited is not ready after 500ms")
	says(t, a.err, "localhost/nosuch:1")
	c.must(t, 1, "delete", "awaited")
	c.must(t, 2, "wait", "awaited", "--for", "deleted")
	refuses(t, c.ask(t, 1, "", "wait", "machine/m1", "--for", "happiness"), "--for happiness", "ready")
}

// The commands that list can be read by programs.
func TestListsCanBeReadByPrograms(t *testing.T) {
	c := need(t)
	for _, args := range [][]string{{"get"}, {"machine", "ls"}, {"image", "ls"}, {"history"}, {"status"}} {
		says(t, c.must(t, 1, append(args, "-o", "json")...), "{", "}")
		says(t, c.must(t, 1, append(args, "-o", "yaml")...), ":")
	}
	says(t, c.must(t, 2, "machine", "ls", "-o", "wide"), "m1", "ready", "m2 *", "m3")
	says(t, c.must(t, 3, "image", "ls"), helloImage, "m1")
	says(t, c.must(t, 3, "completion", "bash"), "complete", "peer")
}
