package main

import "testing"

// A command that was meant for a machine of the lab must not take this one out of its cluster.
func TestLocalCommandsRefuseOtherMachines(t *testing.T) {
	for _, name := range []string{"up", "join", "install", "leave"} {
		for _, flag := range []string{"--lab=2", "--socket=/nowhere"} {
			execute(t, "", typed{args: []string{name, flag}}).wantErr(t, 1, name+" acts on the machine that it runs on")
		}
	}
}
