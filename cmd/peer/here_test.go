package main

import (
	"io"
	"os"
	"strings"
	"testing"
)

// A command that was meant for a machine of the lab must not take this one out of its cluster.
func TestLocalCommandsRefuseOtherMachines(t *testing.T) {
	for _, name := range []string{"up", "join", "install", "leave"} {
		for _, flag := range []string{"--lab=2", "--socket=/nowhere"} {
			execute(t, "", typed{args: []string{name, flag}}).wantErr(t, 1, name+" acts on the machine that it runs on")
		}
	}
}

// A machine of a lab shares the disk and the containers of the computer, which no command
// there may take out of its own cluster, or purge.
func TestLocalCommandsSpareTheComputerOfALab(t *testing.T) {
	t.Setenv(labEnv, "mine/2")
	root := rootCommand(&cli{out: io.Discard, errs: io.Discard, env: os.Getenv})
	for _, name := range []string{"up", "join", "install", "leave"} {
		cmd, _, err := root.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		// Only what comes before it: a test that fails must not purge anything.
		if err := cmd.PreRunE(cmd, nil); err == nil || !strings.Contains(err.Error(), "machine mine/2 is but a network of it") {
			t.Errorf("peer %s: %v", name, err)
		}
	}
}
