package api

import (
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits that the kernel or good sense puts on values.
const (
	// minCPU: the kernel refuses quotas below 1 ms in a period of 100 ms.
	minCPU = 10
	// minMemory: below it no process starts; a smaller number lacks its unit.
	minMemory = 4 << 20
	minGrace  = time.Second
	minPeriod = 100 * time.Millisecond // what is asked more often is work, not a probe
	maxGrace  = 24 * time.Hour
)

// addFunc reports one problem.
type addFunc = func(path, format string, args ...any)

// rules checks what the table can't say.
func rules(kind string, f Fields, add addFunc) {
	switch kind {
	case podKind.Name:
		podRules(f, add)
	case stepKind.Name:
		stepRules(f, add)
	case pinnedKind.Name:
		pinnedRules(f, add)
	case machineKind.Name:
		machineRules(f, add)
	case serviceKind.Name:
		serviceRules(f, add)
	case siteKind.Name:
		siteRules(f, add)
	case poolKind.Name:
		poolRules(f, add)
	case allowKind.Name:
		allowRules(f, add)
	case kindKind.Name:
		kindRules(f, add)
	}
}

func machineRules(f Fields, add addFunc) {
	if s := f.String("spec.address"); f.Has("spec.address") {
		if _, err := netip.ParseAddr(s); err != nil {
			add("spec.address", "%q is not an IP address; write one without port or prefix length, as in 192.0.2.7 or 2001:db8::7", s)
		}
	}
}

func podRules(f Fields, add addFunc) {
	containers := f.Keys("spec.containers")
	if len(containers) == 0 {
		add("spec.containers", "a pod needs at least one container")
	}
	for _, name := range containers {
		containerRules(f, Child("spec.containers", name), add)
	}
	portRules(f, containers, add)
	networkRules(f, add)
	if s := f.String("spec.stop.signal"); s != "" && !signals[s] {
		add("spec.stop.signal", "%q is not a signal; write its name, as in SIGTERM or SIGINT", s)
	}
	for _, path := range []string{"spec.objects.require", "spec.objects.bind"} {
		for _, key := range f.Strings(path) {
			if !strings.Contains(key, "/") {
				add(path, "%q is no key of an object; write it as in pod/db", key)
			}
		}
	}
	durationRange(f, "spec.stop.grace", 0, maxGrace, add)
	durationRange(f, "spec.grace", minGrace, maxGrace, add)
	if n := f.Int("lifecycle.restart"); n < 0 {
		add("lifecycle.restart", "%d is negative; the counter only grows", n)
	}
}

func durationRange(f Fields, path string, low, high time.Duration, add addFunc) {
	if d := f.Duration(path); f.Has(path) && (d < low || d > high) {
		add(path, "%s is not between %s and %s", FormatDuration(d), FormatDuration(low), FormatDuration(high))
	}
}

func containerRules(f Fields, at string, add addFunc) {
	if s := f.String(at + ".image"); f.Has(at + ".image") {
		if err := checkImage(s); err != nil {
			add(at+".image", "%v", err)
		}
	}
	if f.Has(at+".command") && len(f.Strings(at+".command")) == 0 {
		add(at+".command", "the list is empty; leave it out to run the image's own entrypoint")
	}
	if s := f.String(at + ".workdir"); f.Has(at+".workdir") && !path.IsAbs(s) {
		add(at+".workdir", "%q is not an absolute path", s)
	}
	if s := f.String(at + ".user"); f.Has(at+".user") && !userPattern.MatchString(s) {
		add(at+".user", "%q is not a user; write USER or USER:GROUP, by name or number", s)
	}
	for _, name := range f.Keys(at + ".probes") {
		probeRules(f, Child(at+".probes", name), add)
		if name != ProbeReadiness && f.String("spec.restart") == RestartNever {
			add(Child(at+".probes", name), "a %s probe that fails has the container restarted, and spec.restart is never", name)
		}
	}
	resourceRules(f, at+".resources", add)
	mountRules(f, at+".mounts", add)
}

// probeRules: a probe asks in exactly one way.
func probeRules(f Fields, at string, add addFunc) {
	var ways []string
	for _, way := range []string{"http", "tcp", "grpc", "exec"} {
		if f.Has(at + "." + way) {
			ways = append(ways, way)
		}
	}
	if len(ways) != 1 {
		add(at, "a probe asks in exactly one way: write one of http, tcp, grpc and exec, not %d", len(ways))
	}
	if _, _, err := ParseHTTPProbe(f.String(at + ".http")); f.Has(at+".http") && err != nil {
		add(at+".http", "%v", err)
	}
	if f.Has(at+".exec") && len(f.Strings(at+".exec")) == 0 {
		add(at+".exec", "the list is empty; write the command and its arguments")
	}
	durationRange(f, at+".period", minPeriod, maxGrace, add)
	durationRange(f, at+".timeout", minPeriod, maxGrace, add)
	for _, count := range []string{".failures", ".successes"} {
		if n := f.Int(at + count); f.Has(at+count) && n < 1 {
			add(at+count, "%d is not a number of answers; the least is 1", n)
		}
	}
}

// ParseHTTPProbe reads the port and the path of an HTTP probe, ":8080/ready".
func ParseHTTPProbe(s string) (port uint16, path string, err error) {
	number, path, _ := strings.Cut(strings.TrimPrefix(s, ":"), "/")
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n == 0 || !strings.HasPrefix(s, ":") {
		return 0, "", fmt.Errorf("%q is not a port and a path; write them as in :8080/ready", s)
	}
	return uint16(n), "/" + path, nil
}

func resourceRules(f Fields, at string, add addFunc) {
	if n := f.CPU(at + ".cpu"); f.Has(at+".cpu") && n < minCPU {
		add(at+".cpu", "%s is less than the kernel can give; the least is %s", FormatCPU(n), FormatCPU(minCPU))
	}
	if n := f.Bytes(at + ".memory"); f.Has(at+".memory") && n < minMemory {
		add(at+".memory", "%d bytes are too few to run anything; the least is %s. Is the unit missing, as in %dMi?", n, FormatBytes(minMemory), n)
	}
}

// mountRules: each mount names a volume of the pod, and no two share a place.
func mountRules(f Fields, at string, add addFunc) {
	volumes := f.Keys("spec.volumes")
	taken := map[string]string{}
	for _, name := range f.Keys(at) {
		mount := Child(at, name)
		if !slices.Contains(volumes, name) {
			add(mount, "the pod has no volume %q; add it to spec.volumes%s", name, didYouMean(name, volumes))
		}
		where := f.String(mount + ".path")
		if where == "" && !f.Has(mount+".path") {
			continue
		}
		if !path.IsAbs(where) || path.Clean(where) != where || where == "/" {
			add(mount+".path", "%q is not a place for a volume; write a clean absolute path, as in /data", where)
		}
		if other, ok := taken[where]; ok {
			add(mount+".path", "the volume %s is mounted at %s already", other, where)
		}
		taken[where] = name
	}
}

// portRules: the containers of a pod share one address.
func portRules(f Fields, containers []string, add addFunc) {
	taken := map[int64]string{}
	for _, c := range containers {
		ports := Child("spec.containers", c) + ".ports"
		for _, name := range f.Keys(ports) {
			at := Child(ports, name)
			n := f.Int(at)
			if other, ok := taken[n]; ok {
				add(at, "port %d is taken by %s already; the containers of a pod share one address", n, other)
				continue
			}
			taken[n] = at
		}
	}
	hostPortRules(f, containers, add)
}

// hostPortRules: each leads to a port of its container, and the machine has each once.
func hostPortRules(f Fields, containers []string, add addFunc) {
	taken := map[int64]string{}
	for _, c := range containers {
		ports := f.Keys(Child("spec.containers", c) + ".ports")
		host := Child("spec.containers", c) + ".hostPorts"
		for _, name := range f.Keys(host) {
			at := Child(host, name)
			if !slices.Contains(ports, name) {
				add(at, "the container has no port %q; add it to ports%s", name, didYouMean(name, ports))
			}
			n := f.Int(at)
			if other, ok := taken[n]; ok {
				add(at, "host port %d is taken by %s already", n, other)
				continue
			}
			taken[n] = at
		}
	}
}

var (
	userPattern = regexp.MustCompile(`^([a-z_][a-z0-9_-]*\$?|[0-9]+)(:([a-z_][a-z0-9_-]*\$?|[0-9]+))?$`)

	imageName   = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)
	imageHost   = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(:[0-9]+)?$`)
	imageTag    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	imageDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// checkImage reads an image reference, HOST/NAME:TAG@DIGEST, as registries do.
func checkImage(ref string) error {
	rest, digest, hasDigest := strings.Cut(ref, "@")
	if hasDigest && !imageDigest.MatchString(digest) {
		return fmt.Errorf("%q has a bad digest; write @sha256: and 64 hex digits", ref)
	}
	name, tag := rest, ""
	if i := strings.LastIndexByte(rest, ':'); i > strings.LastIndexByte(rest, '/') {
		if name, tag = rest[:i], rest[i+1:]; !imageTag.MatchString(tag) {
			return fmt.Errorf("%q has a bad tag; write up to 128 letters, digits, dots, - and _", ref)
		}
	}
	if host, repo, ok := strings.Cut(name, "/"); ok && imageHost.MatchString(host) && isHost(host) {
		name = repo
	}
	if !imageName.MatchString(name) {
		return fmt.Errorf("%q is not an image; write NAME:TAG in lower case, with the registry's host in front, as in localhost/hello:1", ref)
	}
	return nil
}

// isHost tells a registry's host from the first part of a name, as registries' own
// clients do: it has a dot, a port, or capitals, or is localhost.
func isHost(s string) bool {
	return s == "localhost" || strings.ContainsAny(s, ".:[") || strings.ToLower(s) != s
}

// signals are the names of Linux's signals that can be sent to end a process or to
// tell it something.
var signals = map[string]bool{
	"SIGHUP": true, "SIGINT": true, "SIGQUIT": true, "SIGABRT": true, "SIGKILL": true,
	"SIGUSR1": true, "SIGUSR2": true, "SIGPIPE": true, "SIGALRM": true, "SIGTERM": true,
	"SIGCONT": true, "SIGTSTP": true, "SIGTTIN": true, "SIGTTOU": true, "SIGURG": true,
	"SIGWINCH": true, "SIGIO": true, "SIGPWR": true,
	"SIGRTMIN": true, "SIGRTMIN+3": true, "SIGRTMIN+4": true, "SIGRTMIN+5": true, "SIGRTMIN+6": true,
}
