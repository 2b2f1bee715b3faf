package loops

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"

	"starling.dev/starling/api"
	"starling.dev/starling/lifecycle"
)

// A container gets exactly what its spec says, names with dots included, and the paths
// and digests that earlier steps found out.
func TestContainerSpec(t *testing.T) {
	host := newFakeHost()
	fields := api.Effective("Pod", api.Fields{
		"spec.containers.app.image": `"localhost/hello:1"`, "spec.containers.app.command": `["/bin/hello"]`, "spec.containers.app.args": `["-v"]`,
		"spec.containers.app.env.HOME": `"/"`, `spec.containers.app.env."app.name"`: `"web"`, "spec.containers.app.ports.http": "8080",
		"spec.containers.app.resources.cpu": `"1500m"`, "spec.containers.app.resources.memory": `"64Mi"`,
		"spec.containers.app.workdir": `"/srv"`, "spec.containers.app.user": `"7:8"`,
		"spec.containers.app.mounts.data.path": `"/data"`, "spec.containers.app.mounts.data.readonly": "true", "spec.containers.app.mounts.cache.path": `"/cache"`,
		"spec.runtime": `"crun"`, "spec.stop.grace": `"3s"`, "lifecycle.restart": "2",
	})
	fields["status.images.app"], fields["status.network.namespace"] = `"sha256:1"`, `"/run/netns/id"`
	fields["status.volumes.data"], fields["status.volumes.cache"] = `"/volumes/data"`, `"/volumes/cache"`
	if _, err := start(context.Background(), host, inputs(fields)); err != nil {
		t.Fatal(err)
	}
	want := []ContainerSpec{{
		Name: "app", Image: "localhost/hello:1", Digest: "sha256:1", Command: []string{"/bin/hello"}, Args: []string{"-v"},
		Env: map[string]string{"HOME": "/", "app.name": "web"}, WorkDir: "/srv", User: "7:8", CPU: 1500, Memory: 64 << 20,
		Restart: "always", Runtime: "crun", Ports: map[string]uint16{"http": 8080},
		Mounts: []Mount{{"/volumes/cache", "/cache", false}, {"/volumes/data", "/data", true}},
	}}
	if !reflect.DeepEqual(host.seen, want) {
		t.Errorf("got  %+v\nwant %+v", host.seen, want)
	}
	if p := host.pod; p.ID != "id" || p.Hostname != "web" || p.NetNS != "/run/netns/id" || p.Stop.Signal != "SIGTERM" || p.Stop.Grace.Seconds() != 3 || p.Rerun != "2" {
		t.Errorf("the pod around it: %+v", p)
	}
}

// A container that ended and stays so is no failure, and no running pod either.
func TestStartTellsOfExits(t *testing.T) {
	host := newFakeHost()
	host.exits["job"] = true
	out, err := start(context.Background(), host, inputs(api.Fields{"spec.containers.app.image": `"i"`, "spec.containers.job.image": `"i"`, "spec.restart": `"never"`}))
	if err != nil {
		t.Fatal(err)
	}
	if out["status.running"] != "false" || out["status.containers.job.exit"] != "3" || out.Has("status.containers.job.pid") || !out.Has("status.containers.app.pid") {
		t.Errorf("got %v", out)
	}
}

// What a step expects to write is what it writes again when nothing is new.
func TestExpectations(t *testing.T) {
	for _, kind := range []string{"Pod", "Machine"} {
		l := newLife(t, kind, whole(kind))
		l.settle()
		for _, n := range l.g.Describe().Nodes {
			s, _ := l.g.Step(n.Name)
			if s.Expect == nil {
				continue
			}
			o := l.derived(l.o)
			in := lifecycle.Inputs{Key: o.Key, ID: o.ID, Rev: o.Rev, Fields: o.Fields, Previous: o.Results[n.Name].Outputs, Machine: "a"}
			if got := s.Expect(in); !maps.Equal(got, in.Previous) {
				t.Errorf("%s.%s expects %v and wrote %v", kind, n.Name, got, in.Previous)
			}
		}
	}
}

// An error says which object or machine it is about, and keeps its cause.
func TestErrorsSayWhere(t *testing.T) {
	broken := errors.New("broken")
	fields := api.Fields{
		"spec.containers.app.image": `"i"`, "spec.volumes.data.type": `"directory"`, "status.address": `"fd00::1"`, "cluster.routes.b": `["192.0.2.2","fd00::b:0:0/96"]`,
	}
	for _, tt := range []struct {
		part string
		do   func(context.Context, Host, lifecycle.Inputs) (lifecycle.Outputs, error)
		says string
	}{
		{"image", pull, "broken"},
		{"network", attach, "on a"},
		{"volumes", mount, "volume data on a"},
		{"network", route, "routes of a"},
		{"facts", probe, "inventory"},
		{"containers", start, "broken"},
	} {
		host := newFakeHost()
		host.fails[tt.part] = broken
		out, err := tt.do(context.Background(), host, inputs(fields))
		if !errors.Is(err, broken) || !strings.Contains(err.Error(), tt.says) || out != nil {
			t.Errorf("%s: got %v, %v; want an error with %q", tt.part, out, err, tt.says)
		}
	}
}

func TestRoute(t *testing.T) {
	host := newFakeHost()
	out, err := route(context.Background(), host, inputs(api.Fields{
		"cluster.routes.c": `["192.0.2.3","fd00::c:0:0/96"]`, "cluster.routes.b": `["192.0.2.2","fd00::a:0:7/128","fd00::b:0:0/96"]`,
	}))
	if err != nil || out["status.routes"] != "3" || out["status.prefix"] != `"fd00::a:0:0/96"` {
		t.Fatalf("got %v (%v)", out, err)
	}
	var got []string
	for _, r := range host.plan.Routes {
		got = append(got, r.Prefix.String()+" by "+r.Machine+" "+r.Via.String())
	}
	want := "fd00::a:0:7/128 by b 192.0.2.2, fd00::b:0:0/96 by b 192.0.2.2, fd00::c:0:0/96 by c 192.0.2.3"
	if strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
	for _, bad := range []string{`["192.0.2.2","wireguard:K="]`, `["192.0.2.2","wireguard::1"]`, `{}`, `["here","fd00::/96"]`, `["192.0.2.2","there"]`, `[]`} {
		if _, err := route(context.Background(), host, inputs(api.Fields{"cluster.routes.b": bad})); err == nil {
			t.Errorf("routes %s were taken", bad)
		}
	}
}
