package oci

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/cgroups/v3"
	eventsapi "github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/v2/core/events"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/typeurl/v2"
)

// taskEvents subscribes to the events of tasks in the fixture's namespace, and
// returns once the subscription is in force.
func (f *fixture) taskEvents() <-chan *events.Envelope {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	f.t.Cleanup(cancel)
	incoming, _ := f.client.Subscribe(ctx, fmt.Sprintf("namespace==%s", f.cfg.Namespace))
	for {
		if err := f.client.EventService().Publish(f.in(ctx), topicProbe, &eventsapi.ContainerUpdate{ID: "probe"}); err != nil {
			f.t.Fatal(err)
		}
		select {
		case e := <-incoming:
			if e.Topic == topicProbe {
				return incoming
			}
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// nextEvent returns the next event of a task's life as "what ID".
func (f *fixture) nextEvent(incoming <-chan *events.Envelope) string {
	f.t.Helper()
	for {
		select {
		case e := <-incoming:
			content, err := typeurl.UnmarshalAny(e.Event)
			if err != nil {
				f.t.Fatal(err)
			}
			switch e := content.(type) {
			case *eventsapi.TaskCreate:
				return "create " + e.ContainerID
			case *eventsapi.TaskStart:
				return "start " + e.ContainerID
			case *eventsapi.TaskExit:
				return "exit " + e.ContainerID
			case *eventsapi.TaskDelete:
				return "delete " + e.ContainerID
			}
		case <-f.ctx.Done():
			f.t.Fatal("no event came")
		}
	}
}

// leftovers lists what the machine still has of the fixture's pod.
func (f *fixture) leftovers() []string {
	f.t.Helper()
	var left []string
	add := func(kind, what string) {
		if strings.Contains(what, shortID(f.pod.ID)) {
			left = append(left, kind+" "+what)
		}
	}
	ctx := f.in(f.ctx)
	containers, err := f.client.ContainerService().List(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, c := range containers {
		add("container", c.ID)
	}
	err = f.client.SnapshotService(f.cfg.Snapshotter).Walk(ctx, func(_ context.Context, s snapshots.Info) error {
		add("snapshot", s.Name)
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		f.t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		add("mount", line)
	}
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range commands {
		text, _ := os.ReadFile(path)
		add("process", strings.ReplaceAll(string(text), "\x00", " "))
	}
	for _, pattern := range []string{cgroupRoot + "/*/*/", cgroupRoot + "/*/*/*/", f.cfg.StateDir + "/*/"} {
		found, _ := filepath.Glob(pattern + f.pod.ID)
		for _, path := range found {
			add("directory", path)
		}
	}
	return left
}

// cgroupFile is a file of a cgroup and what it must hold.
type cgroupFile struct{ path, want string }

// cgroupFiles are those of 250 thousandths of a core and 64 MiB.
func cgroupFiles(cgroup string) []cgroupFile {
	if cgroups.Mode() == cgroups.Unified {
		return []cgroupFile{
			{filepath.Join(cgroupRoot, cgroup, "cpu.max"), "25000 100000"},
			{filepath.Join(cgroupRoot, cgroup, "memory.max"), "67108864"},
		}
	}
	return []cgroupFile{
		{filepath.Join(cgroupRoot, "cpu", cgroup, "cpu.cfs_quota_us"), "25000"},
		{filepath.Join(cgroupRoot, "cpu", cgroup, "cpu.shares"), "256"},
		{filepath.Join(cgroupRoot, "memory", cgroup, "memory.limit_in_bytes"), "67108864"},
	}
}
