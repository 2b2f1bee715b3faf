package e2e

import (
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
)

// on gives the pod a dependency on other objects, as YAML.
func on(objects string) podSpec { return podSpec{args: serve, more: "  objects: {" + objects + "}\n"} }

// withObjects makes what the causes of this group depend on.
func withObjects(t *testing.T, c *cluster) {
	t.Helper()
	c.remove(t, "why-base", "why-broken", "why-one", "why-two")
	c.apply(t, 1, "alice", set(podSpec{name: "why-base", args: serve}, podSpec{name: "why-broken", image: "localhost/nosuch:1"}))
	for n := 1; n <= machines; n++ {
		c.awaitReady(t, n, "why-base")
	}
	one, two := on("require: [pod/why-two]"), on("require: [pod/why-one]")
	one.name, two.name = "why-one", "why-two"
	c.apply(t, 1, "alice", set(one, two))
}

// whySite is a site whose one route leads to a service that is not there.
const whySite = "kind: Site\nname: why-site\nspec: {hosts: [why.example], routes: {all: {services: {why-shop: 1}}}}\n"

func objectCauses() []cause {
	service := func(port string) string {
		return "kind: Service\nname: why-shop\nspec: {select: {app: why-shop}, ports: {http: {port: " + port + "}}}\n"
	}
	return []cause{
		{
			name: "site without its service", key: "site/why-site", verdict: "blocked",
			stage: func(t *testing.T, c *cluster) {
				c.remove(t, "site/why-site", "service/why-shop")
				c.apply(t, 1, "alice", whySite)
			},
			says: `: routes: route all leads to service/why-shop, which does not exist\n`, todo: "Create the service", step: "routes is blocked on m",
			mend: func(t *testing.T, c *cluster, key string) {
				c.apply(t, 2, "alice", service("81"))
				c.awaitText(t, 3, key, regexp.MustCompile(`^blocked: site/why-site: routes: route all leads to port 80 of service/why-shop, which has no such port; it has 81\n`))
				says(t, c.must(t, 2, "get", "sites"), "routes blocked")
				c.apply(t, 3, "alice", service("80"))
			},
		}, {
			name: "required object missing", pod: on("require: [pod/why-bale]"),
			says: `: objects: it requires pod/why-bale, which does not exist; the nearest that exists is pod/why-base\n`,
			todo: "Create it", step: "objects is blocked on m",
			mend: func(t *testing.T, c *cluster, _ string) {
				c.remove(t, "why-bale")
				c.apply(t, 2, "alice", podSpec{name: "why-bale", args: serve}.String())
			},
		}, {
			name: "required object failing", pod: on("require: [pod/why-broken]"),
			says: `: it requires pod/why-broken, which is failed; pod/why-broken: image on m\d: image localhost/nosuch:1 is not on this machine`,
			todo: "peer image load", step: "image is retrying on m",
		}, {
			name: "requirement cycle", key: "why-one",
			says: `: objects: pod/why-one requires pod/why-two requires pod/why-one: each waits for the next, so that none of them starts`,
			todo: "Take one of the requirements out", step: "objects is blocked on m",
			mend: func(t *testing.T, c *cluster, _ string) {
				c.apply(t, 3, "alice", podSpec{name: "why-two", args: serve}.String())
			},
		}, {
			name: "bound to what is stopped", pod: on("bind: [pod/why-base]"), verdict: "converged",
			after: func(t *testing.T, c *cluster, key string) {
				c.awaitReady(t, 1, key)
				c.must(t, 2, "switch", "why-base", "stopped")
			},
			says: ` is stopped on m\d; it is bound to pod/why-base, which is stopped`,
			mend: func(t *testing.T, c *cluster, _ string) { c.must(t, 3, "switch", "why-base", "ready") },
		},
	}
}

// Ports of the machine: one that programs have on every machine, and one that pods have.
const (
	portListened = 18090
	portTaken    = 18091
)

// withHostPorts has a program listen on one port of every machine, and pods hold another.
func withHostPorts(t *testing.T, c *cluster) {
	t.Helper()
	for n := 1; n <= machines; n++ {
		if err := c.lab.Within(n, func() error {
			l, err := net.Listen("tcp", fmt.Sprintf(":%d", portListened))
			if err == nil {
				t.Cleanup(func() { l.Close() })
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	var pods []string
	for n := 1; n <= machines; n++ {
		name := fmt.Sprintf("why-holds-%d", n)
		c.remove(t, name)
		pods = append(pods, hostPod(name, portTaken, ""))
	}
	c.apply(t, 1, "alice", strings.Join(pods, "---\n"))
	for n := 1; n <= machines; n++ {
		c.awaitReady(t, 1, fmt.Sprintf("why-holds-%d", n))
	}
}

func hostPortCauses() []cause {
	return []cause{
		{
			name: "port in use on the host", spec: func(name string) string { return hostPod(name, portListened, "") },
			says: `: schedule: no machine fits: m1 port 18090 is in use on the host by e2e\.test \(pid \d+\); m2 port 18090 .*; m3 port 18090 is in use on the host by e2e\.test`,
			todo: "Stop the program that has the port", step: "schedule is blocked on m",
		}, {
			name: "no machine with the port free", spec: func(name string) string { return hostPod(name, portTaken, "") },
			says: `: schedule: no machine fits: m1 host port 18091 is taken by pod/why-holds-\d; m2 host port 18091 is taken by pod/why-holds-\d; m3 host port 18091 is taken by pod/why-holds-\d`,
			todo: "Choose another host port", step: "schedule is blocked on m",
			mend: func(t *testing.T, c *cluster, _ string) { c.must(t, 1, "delete", "why-holds-2") },
		},
	}
}
