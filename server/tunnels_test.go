package server

import (
	"strings"
	"testing"
	"time"
)

func TestTunnelIsJudged(t *testing.T) {
	well, late, never := 3*time.Second, 5*time.Minute, time.Duration(-1)
	says := func(name string, heard time.Duration) side {
		return side{machine: name, has: true, port: 51820, heard: heard, lately: heard == well}
	}
	mute := side{machine: "m2", problem: "it is silent"}
	for _, c := range []struct {
		here, there   side
		fault, remedy string // that begin so
	}{
		{says("m1", well), says("m2", well), "", ""},
		{says("m1", well), mute, "", ""},
		{says("m1", never), mute, "the tunnel between m1 and m2 fails: m1 has never received anything from m2; m2 can't be asked", "Let UDP to port 51820 pass between"},
		{says("m1", late), says("m2", well), "the tunnel between m1 and m2 fails on the side of m1: m1 has received nothing from m2 for 5m0s, although m2 hears m1", "Let UDP to port 51820 into m1."},
		{says("m1", well), says("m2", never), "the tunnel between m1 and m2 fails on the side of m2: m2 has never received anything from m1, although m1 hears m2", "Let UDP to port 51820 into m2."},
		{says("m1", never), says("m2", late), "the tunnel between m1 and m2 fails on both sides: m1 has never", "Let UDP to port 51820 pass between m1 and m2."},
		{says("m1", never), side{machine: "m2"}, "the tunnel between m1 and m2 fails on the side of m2, which has no tunnel to m1", "Look at `peer why machine/m2`."},
		{side{machine: "m1"}, says("m2", well), "m1 has no tunnel to m2 yet", ""},
		{side{machine: "m1", problem: "it is silent"}, says("m2", well), "m1 can't tell how its tunnel to m2 is: it is silent", ""},
	} {
		fault, remedy := judge(c.here, c.there)
		if !strings.HasPrefix(fault, c.fault) || !strings.HasPrefix(remedy, c.remedy) || c.fault == "" && fault != "" || c.remedy == "" && remedy != "" {
			t.Errorf("%+v\n%+v\ngot  %q %q\nwant %q %q", c.here, c.there, fault, remedy, c.fault, c.remedy)
		}
	}
}
