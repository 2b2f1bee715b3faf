package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawValue draws a canonical value that fits a field, from all that its type allows.
func drawValue(t *rapid.T, f Field) string {
	switch f.Type {
	case TypeInt:
		return Int(rapid.Int64Min(0).Draw(t, "int"))
	case TypePort:
		return Int(rapid.IntRange(1, 65535).Draw(t, "port"))
	case TypeBool:
		return Bool(rapid.Bool().Draw(t, "bool"))
	case TypeCPU:
		return CPU(rapid.Int64Range(minCPU, 1<<40).Draw(t, "cpu"))
	case TypeBytes:
		return Bytes(rapid.Int64Range(minMemory, 1<<50).Draw(t, "bytes"))
	case TypeDuration:
		return Duration(1e6 * drawMillis(t))
	case TypeStrings:
		if strings.Contains(f.Path, ".objects.") {
			return List(rapid.SliceOfN(rapid.SampledFrom([]string{"pod/db", "machine/m1", "service/shop/cache"}), 1, 3).Draw(t, "keys")...)
		}
		return List(rapid.SliceOfN(drawText(), 1, 8).Draw(t, "list")...)
	}
	if len(f.Enum) > 0 {
		return Str(rapid.SampledFrom(f.Enum).Draw(t, "enum"))
	}
	path := strings.NewReplacer("spec.next.", "spec.", "spec.previous.", "spec.").Replace(f.Path)
	switch path {
	case "spec.containers.*.image":
		return Str(rapid.StringMatching(`[a-z]{1,5}(\.[a-z]{1,3}(:[0-9]{1,4})?/[a-z]{1,9})?(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,9})?`).Draw(t, "image"))
	case "spec.containers.*.workdir":
		return Str("/" + rapid.StringMatching(`[a-z0-9 :#'"-]{0,9}`).Draw(t, "workdir"))
	case "spec.containers.*.user":
		return Str(rapid.StringMatching(`[0-9]{1,5}|true|null|app(:[0-9]{1,3})?`).Draw(t, "user"))
	case "spec.stop.signal":
		return Str(rapid.SampledFrom([]string{"SIGINT", "SIGTERM"}).Draw(t, "signal"))
	case "spec.address":
		return Str(rapid.SampledFrom([]string{"192.0.2.7", "2001:db8::7", "fe80::1%eth0"}).Draw(t, "address"))
	}
	return Str(drawText().Draw(t, "text"))
}

func drawMillis(t *rapid.T) time.Duration {
	return time.Duration(rapid.Int64Range(1000, 24*3600*1000).Draw(t, "millis"))
}

// drawText draws what YAML readers trip over, beside anything at all but NUL.
func drawText() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{
			"", " ", "~", "null", "yes", "No", "off", "0x10", "010", "1e3", ".5", "-.inf", ".nan", "1_000", "12:30:45",
			"- a", "-", "--", "---", "...", "? a", ": a", "a: b", "a:", "#", "a #b", "&a", "*a", "!a", "%a", "@a", "`a", "|", ">",
			"{}", "[]", "a, b", "'", "\"", "\\", "\n", "a\n", "a\n\n", "\na", " a\nb", "a\nb ", "a\n b\n", "a\r\nb", "\t", "\u2028",
			"\u0085", "\ufeff", "=", "<<", "é", "😀", "--e5", "/", "x-", "2001:db8::1", "one\ntwo\nthree", "# a\n- b\n",
		}),
		rapid.StringMatching(`[ -~\n]{0,20}`),
		rapid.Map(rapid.String(), func(s string) string { return strings.ReplaceAll(s, "\x00", "") }),
	)
}

// drawFields draws a valid object of a kind.
func drawFields(t *rapid.T, k Kind) Fields {
	if k.Name == "Kind" {
		return drawKind(t)
	}
	f := Fields{}
	names := func(what string) []string {
		return rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,5}[a-z0-9])?`), 1, 3, rapid.ID).Draw(t, what)
	}
	var fill func(n *node, path string)
	fill = func(n *node, path string) {
		switch {
		case n.field != nil:
			if n.field.Owner == People && (n.field.Required || rapid.Bool().Draw(t, path)) {
				f[path] = drawValue(t, *n.field)
			}
		case n.name == "mounts": // only volumes that are there, each at its own place
		case n.name == "probes": // each asks in one way
		case n.name == "hostPorts": // each leads to a port that is there
		case strings.HasSuffix(n.path, ".network.interfaces"), strings.HasSuffix(n.path, ".network.routes"): // each by an interface
		default:
			for _, c := range n.children {
				if c != n.star {
					fill(c, Child(path, c.name))
					continue
				}
				for _, key := range names(path) {
					fill(c, Child(path, drawKey(t, c, key)))
				}
			}
		}
	}
	fill(schemaOf(k.Name).root, "")
	switch k.Name {
	case "Pod":
		fitTogether(t, f, "spec")
	case "Step":
		f["spec.kind"], f["spec.loop"], f["spec.step"] = Str("Pod"), Str("audit"), Str("check")
		f["spec.outputs"], f["spec.claims"] = List("status.loops.audit"), List("nftables:table/audit")
		f["spec.entries"], f["spec.by"], f["spec.notBy"] = Int(rapid.IntRange(2, 600).Draw(t, "entries")), List("user:*", "loop:pinned"), List("user:bob")
		delete(f, "spec.where")
	case "PinnedDeployment":
		fitTogether(t, f, "spec.next")
		fitTogether(t, f, "spec.previous")
		f["spec.scaling"] = Str("autoscaler")
		for _, path := range []string{"spec.replicas", "spec.percentNext", "spec.surge", "spec.unavailable"} {
			f[path] = Int(rapid.IntRange(1, 100).Draw(t, path))
		}
	case "Service":
		f["spec.select.app"] = Str("web")
		if f.Has("spec.pool") {
			f["spec.pool"] = Str("lan")
		}
		spreadPorts(f, "spec.ports.*.port")
	case "Site":
		fitSite(t, f)
	case "Pool":
		f["spec.prefixes"] = List("192.0.2.16/28", "2001:db8::10/124")
	case "Allow":
		spreadPorts(f, "spec.ports.*.port")
		for _, path := range []string{"spec.from.namespace", "spec.to.namespace"} {
			f[path] = Str(rapid.SampledFrom([]string{"shop", AnyNamespace}).Draw(t, path))
		}
	}
	return f
}

// fitSite makes what was drawn for a site one whole.
func fitSite(t *rapid.T, f Fields) {
	f["spec.hosts"] = List("shop.example.com", "*.example.com")
	for path := range f {
		if Below(path, "spec.tls") {
			delete(f, path)
		}
	}
	f["spec.routes.all.path"] = Str("/")
	for _, name := range f.Keys("spec.routes") {
		at := Child("spec.routes", name)
		f[at+".path"], f[at+".services.web"], f[at+".retries"], f[at+".timeout"] = Str("/shop"), "1", "3", Duration(1e9)
		for _, service := range f.Keys(at + ".services") {
			f[Child(at+".services", service)] = Int(rapid.IntRange(1, 100).Draw(t, "weight"))
		}
	}
	if rapid.Bool().Draw(t, "acme") {
		f["spec.tls.acme.email"], f["spec.tls.acme.trust"] = Str("a@example.com"), Str("/etc/ca.pem")
		f["spec.tls.acme.directory"] = Str("https://example.com/dir")
	} else {
		f["spec.tls.certificate"], f["spec.tls.key"] = Str("/etc/a.pem"), Str("/etc/b.pem")
	}
}

// fitTogether makes what was drawn for a pod's spec, or for a template, one whole.
func fitTogether(t *rapid.T, f Fields, spec string) {
	mountAll(f, spec)
	connectAll(t, f, spec+".network")
	spreadPorts(f, spec+".containers.*.ports.*")
	host := int64(1000)
	for _, c := range f.Keys(spec + ".containers") {
		at := Child(spec+".containers", c)
		for _, name := range f.Keys(at + ".ports") {
			if rapid.Bool().Draw(t, "host port of "+name) {
				host++
				f[Child(at+".hostPorts", name)] = Int(host)
			}
		}
	}
	for _, c := range f.Keys(spec + ".containers") {
		for _, name := range []string{ProbeStartup, ProbeReadiness, ProbeLiveness} {
			probe := Child(spec+".containers", c) + ".probes." + name
			if name != ProbeReadiness && f.String(spec+".restart") == RestartNever {
				continue
			}
			switch rapid.IntRange(0, 4).Draw(t, probe) {
			case 0:
				f[probe+".http"] = Str(":8080/ready")
				f[probe+".failures"] = Int(rapid.IntRange(1, 9).Draw(t, "failures"))
			case 1:
				f[probe+".exec"] = List("true")
				f[probe+".period"] = Duration(1e6 * drawMillis(t))
			case 2:
				f[probe+".tcp"] = "80"
			case 3:
				f[probe+".grpc"] = "80"
			}
		}
	}
}

func drawKey(t *rapid.T, n *node, name string) string {
	switch n.group.Key {
	case KeyEnv:
		return name + rapid.SampledFrom([]string{"", ".x", `"`, ":", "*", "#", "é", "-", "\\"}).Draw(t, "key")
	case KeyLabel:
		return rapid.SampledFrom([]string{"", "example.com/"}).Draw(t, "key") + name
	}
	return name
}

func mountAll(f Fields, spec string) {
	for _, c := range f.Keys(spec + ".containers") {
		for i, v := range f.Keys(spec + ".volumes") {
			f[spec+"."+Join("containers", c, "mounts", v, "path")] = Str(fmt.Sprintf("/v%d", i))
		}
	}
}

// connectAll draws further interfaces, each with a route.
func connectAll(t *rapid.T, f Fields, network string) {
	for i, name := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{3}`), 0, 2, rapid.ID).Draw(t, network) {
		at := Child(network+".interfaces", name)
		f[at+".attach"], f[at+".addresses"] = Str("br0"), List(fmt.Sprintf("192.0.2.%d/24", i+1), fmt.Sprintf("2001:db8:%d::1/64", i))
		f[at+".mtu"] = Int(rapid.IntRange(minMTU, maxMTU).Draw(t, "mtu"))
		route := Child(network+".routes", name)
		f[route+".interface"], f[route+".to"] = Str(name), Str(fmt.Sprintf("2001:db8:9:%d::/64", i))
		if rapid.Bool().Draw(t, "via") {
			f[route+".via"] = Str(fmt.Sprintf("2001:db8:%d::2", i))
		}
	}
}

func spreadPorts(f Fields, pattern string) {
	next := 1
	for _, path := range f.Paths() {
		if Match(pattern, path) {
			f[path] = Int(next)
			next++
		}
	}
}

func TestRenderParses(t *testing.T) {
	for _, k := range Kinds() {
		t.Run(k.Name, rapid.MakeCheck(func(t *rapid.T) {
			key := Key{Kind: k.Name, Name: "x"}
			if k.Namespaced {
				key.Namespace = rapid.SampledFrom([]string{"default", "shop", "true", "7"}).Draw(t, "namespace")
			}
			fields := drawFields(t, k)
			if problems := Validate(k.Name, fields); len(problems) > 0 {
				t.Fatalf("drew an invalid object: %v", problems)
			}
			with := fields.Clone()
			with["status.ready"] = "true"
			text := Render(key, with)
			specs, err := ParseYAML("x.yaml", text)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if len(specs) != 1 || specs[0].Key != key || len(Diff(fields, specs[0].Fields)) > 0 {
				t.Fatalf("read back %+v\ndifference %q\nof\n%s", specs[0].Key, Diff(fields, specs[0].Fields), text)
			}
		}))
	}
}

func TestTreeRoundTrip(t *testing.T) {
	for _, k := range Kinds() {
		t.Run(k.Name, rapid.MakeCheck(func(t *rapid.T) {
			fields := drawFields(t, k)
			back, err := FromTree(ToTree(fields))
			if err != nil || len(Diff(fields, back)) > 0 {
				t.Fatalf("%v, %q", err, Diff(fields, back))
			}
			key := Key{Kind: k.Name, Name: "x"}
			if k.Namespaced {
				key.Namespace = DefaultNamespace
			}
			data, err := MarshalObject(key, fields)
			if err != nil {
				t.Fatal(err)
			}
			if !json.Valid(data) {
				t.Fatalf("not JSON: %s", data)
			}
			specs, err := ParseYAML("x.json", data)
			if err != nil || len(Diff(fields, specs[0].Fields)) > 0 {
				t.Fatalf("%v\n%s", err, data)
			}
		}))
	}
}
