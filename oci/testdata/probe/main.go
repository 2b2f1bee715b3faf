// Probe is what the tests run inside of containers, to see what a container sees.
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/term"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Println("probe: no command")
		os.Exit(64)
	}
	args := os.Args[2:]
	switch os.Args[1] {
	case "wait":
		wait()
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ignoring SIGTERM")
		select {}
	case "cat":
		cat(args)
	case "env":
		fmt.Println(strings.Join(os.Environ(), "\n"))
	case "args":
		fmt.Println(strings.Join(os.Args, " "))
	case "id":
		id()
	case "exit":
		code, _ := strconv.Atoi(args[0])
		for _, line := range args[1:] {
			fmt.Println(line)
		}
		fmt.Fprintln(os.Stderr, "exiting with", code)
		os.Exit(code)
	case "count":
		count(args)
		wait()
	case "echo":
		io.Copy(os.Stdout, os.Stdin)
	case "terminal":
		terminal()
	default:
		fmt.Println("probe: unknown command", os.Args[1])
		os.Exit(64)
	}
}

// wait blocks until it is asked to stop.
func wait() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	fmt.Println("waiting")
	<-asked
	fmt.Println("asked to stop")
}

func cat(paths []string) {
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Stdout.Write(content)
	}
}

func id() {
	host, _ := os.Hostname()
	dir, _ := os.Getwd()
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "NoNewPrivs") || strings.HasPrefix(line, "CapEff") || strings.HasPrefix(line, "Seccomp:") {
			fmt.Print(line)
		}
	}
	fmt.Printf("uid %d gid %d host %s dir %s\n", os.Getuid(), os.Getgid(), host, dir)
}

// count writes numbered lines of a given width.
func count(args []string) {
	lines, _ := strconv.Atoi(args[0])
	width, _ := strconv.Atoi(args[1])
	for n := range lines {
		fmt.Printf("%0*d\n", width, n)
	}
}

// terminal reports its size whenever it changes, until its input ends.
func terminal() {
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	fmt.Println("terminal", term.IsTerminal(0))
	for range resized {
		if width, height, err := term.GetSize(0); err == nil && width > 0 {
			fmt.Printf("size %dx%d\n", width, height)
			return
		}
	}
}
