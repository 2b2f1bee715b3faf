package compose

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"starling.dev/starling/api"
)

// conversion turns one service into fields of a pod's spec, relative to "spec". What it has
// understood it takes out of service, so that what remains is what it left out.
type conversion struct {
	project *types.Project
	name    string
	service types.ServiceConfig
	fields  api.Fields
	ports   map[string]uint16 // by the name that the port got
	left    []Omission
}

const container = "containers.app."

func (c *conversion) omit(field, format string, args ...any) {
	c.left = append(c.left, Omission{c.name, field, fmt.Sprintf(format, args...)})
}

func (c *conversion) set(path, value string) { c.fields[path] = value }

func (c *conversion) convert(namespace string) ([]Object, error) {
	key := keyOf(namespace, c.name, c.service)
	name := key.Name
	if err := api.CheckName(name); err != nil {
		return nil, err
	}
	if c.service.Image == "" {
		return nil, errors.New("it has no image; build it, give it a name with `image:`, and bring it in with `peer image load`")
	}
	c.program()
	c.environment()
	c.listening()
	c.resources()
	c.health()
	c.lifecycle()
	c.volumes()
	c.names()
	c.dependencies(namespace)
	replicas := c.service.GetScale()
	c.known()
	c.rest()
	c.set("labels.app", api.Str(name))

	at := "spec."
	fields := api.Fields{}
	if key.Kind != "Pod" {
		at = "spec.next."
		fields["spec.replicas"] = api.Int(replicas)
	}
	for path, value := range c.fields {
		fields[at+path] = value
	}
	made := append([]Object{{key, fields}}, c.serviceObject(namespace, name)...)
	for _, o := range made {
		if _, problems := api.Normalize(o.Key.Kind, o.Fields); len(problems) > 0 {
			return nil, fmt.Errorf("what it says is not valid here: %s: %s", problems[0].Path, problems[0].Message)
		}
	}
	return made, nil
}

// keyOf is the key of what a service becomes.
func keyOf(namespace, name string, s types.ServiceConfig) api.Key {
	key := api.Key{Kind: "Pod", Namespace: namespace, Name: strings.ToLower(strings.ReplaceAll(name, "_", "-"))}
	if s.GetScale() != 1 {
		key.Kind = "PinnedDeployment"
	}
	return key
}

// dependencies have the pod wait until what it depends on is up.
func (c *conversion) dependencies(namespace string) {
	var require []string
	for _, name := range slices.Sorted(maps.Keys(c.service.DependsOn)) {
		on, field := c.service.DependsOn[name], "depends_on."+name
		other, here := c.project.Services[name]
		key := keyOf(namespace, name, other).String()
		switch {
		case !here:
			c.omit(field, "it is not among what is converted")
		case on.Condition == types.ServiceConditionCompletedSuccessfully:
			c.omit(field, "nothing waits for the end of a program here; apply this when `peer wait` says that %s is done", key)
		default:
			require = append(require, key)
		}
		if on.Restart && here {
			c.omit(field+".restart", "what runs is not touched when %s restarts", key)
		}
	}
	if len(require) > 0 {
		c.set("objects.require", api.List(require...))
	}
	c.service.DependsOn = nil
}

// serviceObject gives the pods a name for the others to find them by.
func (c *conversion) serviceObject(namespace, name string) []Object {
	if len(c.ports) == 0 {
		return nil
	}
	fields := api.Fields{"spec.select.app": api.Str(name)}
	for port, number := range c.ports {
		fields["spec.ports."+port+".port"] = api.Int(number)
	}
	return []Object{{api.Key{Kind: "Service", Namespace: namespace, Name: name}, fields}}
}

func (c *conversion) program() {
	s := &c.service
	c.set(container+"image", api.Str(s.Image))
	if s.Build != nil {
		c.omit("build", "images are not built here; build it and bring it in with `peer image load`")
	}
	if len(s.Entrypoint) > 0 {
		c.set(container+"command", api.List(s.Entrypoint...))
	}
	if len(s.Command) > 0 {
		c.set(container+"args", api.List(s.Command...))
	}
	if s.WorkingDir != "" {
		c.set(container+"workdir", api.Str(s.WorkingDir))
	}
	if s.User != "" {
		c.set(container+"user", api.Str(s.User))
	}
	s.Image, s.Build, s.Entrypoint, s.Command, s.WorkingDir, s.User = "", nil, nil, nil, "", ""
}

func (c *conversion) environment() {
	for _, name := range slices.Sorted(maps.Keys(c.service.Environment)) {
		value := c.service.Environment[name]
		if value == nil {
			c.omit("environment."+name, "it has no value here; set it before importing")
			continue
		}
		c.set(api.Join("containers", "app", "env", name), api.Str(*value))
	}
	c.service.Environment, c.service.EnvFiles = nil, nil // the reader has put the files' variables in
}

func (c *conversion) listening() {
	c.ports = map[string]uint16{}
	for i, p := range c.service.Ports {
		field := "ports." + strconv.Itoa(i)
		name := c.portName(p)
		c.listen(name, uint16(p.Target))
		if p.Published == "" {
			continue
		}
		published, err := strconv.ParseUint(p.Published, 10, 16)
		if err != nil {
			c.omit(field, "the range %s is not taken; publish one port of the machine", p.Published)
			continue
		}
		c.set(container+"hostPorts."+name, api.Int(uint16(published)))
		if p.HostIP != "" && p.HostIP != "0.0.0.0" && p.HostIP != "::" {
			c.omit(field, "the port is open at all addresses of the machine, not only at %s", p.HostIP)
		}
	}
	for _, e := range c.service.Expose {
		number, err := strconv.ParseUint(strings.TrimSuffix(e, "/tcp"), 10, 16)
		if err != nil {
			c.omit("expose", "%q is not one TCP port", e)
			continue
		}
		c.listen("p"+strconv.FormatUint(number, 10), uint16(number))
	}
	c.service.Ports, c.service.Expose = nil, nil
}

func (c *conversion) portName(p types.ServicePortConfig) string {
	name := strings.ToLower(cmp.Or(p.Name, p.AppProtocol))
	if api.CheckName(name) != nil || c.ports[name] != 0 {
		return "p" + strconv.FormatUint(uint64(p.Target), 10)
	}
	return name
}

// listen names a port, unless it has a name already.
func (c *conversion) listen(name string, port uint16) {
	for _, known := range c.ports {
		if known == port {
			return
		}
	}
	c.ports[name] = port
	c.set(container+"ports."+name, api.Int(port))
}

func (c *conversion) resources() {
	s := &c.service
	cpu, memory := float64(s.CPUS), int64(s.MemLimit)
	if d := s.Deploy; d != nil && d.Resources.Limits != nil {
		limits := d.Resources.Limits
		cpu, memory = cmp.Or(float64(limits.NanoCPUs), cpu), cmp.Or(int64(limits.MemoryBytes), memory)
		limits.NanoCPUs, limits.MemoryBytes = 0, 0
	}
	if cpu > 0 {
		c.set(container+"resources.cpu", api.CPU(int64(math.Round(cpu*1000))))
	}
	if memory > 0 {
		c.set(container+"resources.memory", api.Bytes(memory))
	}
	s.CPUS, s.MemLimit = 0, 0
}

func (c *conversion) health() {
	h := c.service.HealthCheck
	c.service.HealthCheck = nil
	if h == nil || h.Disable || len(h.Test) < 2 || h.Test[0] == "NONE" {
		return
	}
	at := container + "probes.readiness."
	command := h.Test[1:]
	if h.Test[0] == "CMD-SHELL" {
		command = []string{"/bin/sh", "-c", h.Test[1]}
	}
	c.set(at+"exec", api.List(command...))
	if h.Interval != nil {
		c.set(at+"period", api.Duration(time.Duration(*h.Interval)))
	}
	if h.Timeout != nil {
		c.set(at+"timeout", api.Duration(time.Duration(*h.Timeout)))
	}
	if h.Retries != nil {
		c.set(at+"failures", api.Int(int64(*h.Retries)))
	}
}

var restarts = map[string]string{
	types.RestartPolicyNo: "never", types.RestartPolicyAlways: "always",
	types.RestartPolicyUnlessStopped: "always", types.RestartPolicyOnFailure: "on-failure",
}

func (c *conversion) lifecycle() {
	s := &c.service
	policy, _, _ := strings.Cut(s.Restart, ":") // on-failure:3 is tried again for longer here
	if r := restarts[policy]; r != "" {
		c.set("restart", api.Str(r))
	}
	if s.StopSignal != "" {
		c.set("stop.signal", api.Str(s.StopSignal))
	}
	if s.StopGracePeriod != nil {
		c.set("stop.grace", api.Duration(time.Duration(*s.StopGracePeriod)))
	}
	if s.Runtime != "" {
		c.set("runtime", api.Str(s.Runtime))
	}
	s.Restart, s.StopSignal, s.StopGracePeriod, s.Runtime = "", "", nil, ""
}

func (c *conversion) volumes() {
	for i, v := range c.service.Volumes {
		field := "volumes." + strconv.Itoa(i)
		if v.Type != types.VolumeTypeVolume {
			c.omit(field, "a mount of type %s at %s belongs to one machine; put the files into the image, or use a volume", v.Type, v.Target)
			continue
		}
		name := strings.ToLower(strings.NewReplacer("_", "-", ".", "-").Replace(cmp.Or(v.Source, "data"+strconv.Itoa(i))))
		if err := api.CheckName(name); err != nil {
			c.omit(field, "%v", err)
			continue
		}
		c.set("volumes."+name+".type", api.Str("directory"))
		c.set(container+"mounts."+name+".path", api.Str(v.Target))
		if v.ReadOnly {
			c.set(container+"mounts."+name+".readonly", api.Bool(true))
		}
		if c.sharesVolume(v.Source) {
			c.omit(field, "volume %s is each pod's own here; Compose shared it between services", v.Source)
		}
	}
	c.service.Volumes = nil
}

// sharesVolume reports whether another service mounts the volume, too.
func (c *conversion) sharesVolume(source string) bool {
	for name, other := range c.project.Services {
		for _, v := range other.Volumes {
			if name != c.name && source != "" && v.Type == types.VolumeTypeVolume && v.Source == source {
				return true
			}
		}
	}
	return false
}

// names takes what people find things by. A label that is none here is left out.
func (c *conversion) names() {
	for key, value := range c.service.Labels {
		path := api.Join("spec", "labels", key)
		probe := api.Fields{path: api.Str(value), "spec.containers.app.image": api.Str("x")}
		if _, problems := api.Normalize("Pod", probe); len(problems) > 0 || key == "app" {
			c.omit("labels", "%s can't be a label of a pod", key)
			continue
		}
		c.set(api.Join("labels", key), api.Str(value))
	}
	c.service.Labels = nil
}

// known takes out what needs no counterpart, because it is so here anyway.
func (c *conversion) known() {
	s := &c.service
	if n, only := s.Networks["default"]; !(only && n == nil && len(s.Networks) == 1) && len(s.Networks) > 0 {
		c.omit("networks", "all pods reach each other; an Allow says who may")
	}
	s.Networks = nil
	s.ContainerName, s.Hostname, s.Scale, s.Init = "", "", nil, nil
	s.Profiles, s.PullPolicy, s.StdinOpen, s.Tty, s.Develop = nil, "", false, false, nil
	if d := s.Deploy; d != nil {
		if d.Replicas = nil; d.Mode == "replicated" {
			d.Mode = ""
		}
		if d.Resources.Limits != nil && isEmpty(d.Resources.Limits) {
			d.Resources.Limits = nil
		}
		if isEmpty(d) {
			s.Deploy = nil
		}
	}
}

// rest lists what nobody has taken out.
func (c *conversion) rest() {
	for _, field := range slices.Sorted(maps.Keys(filled(c.service))) {
		c.omit(field, "there is nothing like it here")
	}
	slices.SortFunc(c.left, func(a, b Omission) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Why, b.Why))
	})
}

// filled returns the fields, by the name that they have in a file, that say something.
func filled(v any) map[string]any {
	raw, err := json.Marshal(v)
	fields := map[string]any{}
	if err != nil || json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	maps.DeleteFunc(fields, func(_ string, value any) bool { return blank(value) })
	return fields
}

// blank tells values that say nothing: null, and what holds only such.
func blank(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case map[string]any:
		for _, inner := range v {
			if !blank(inner) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	}
	return false
}

func isEmpty(v any) bool { return len(filled(v)) == 0 }
