package api

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// sample is a value of a field's type that differs from the zero value.
func sample(f Field) string {
	switch f.Type {
	case TypeInt, TypePort:
		return "7"
	case TypeBool:
		return "true"
	case TypeStrings:
		return List("sample")
	case TypeCPU:
		return CPU(7)
	case TypeBytes:
		return Bytes(7 << 20)
	case TypeDuration:
		return Duration(7 * time.Second)
	case TypeTime:
		return Time(time.Unix(7, 0))
	}
	return Str("sample")
}

func decodeAny(kind string, f Fields) (any, error) {
	switch kind {
	case "Pod":
		return DecodePod(f)
	case "PinnedDeployment":
		return DecodePinned(f)
	case "Service":
		return DecodeService(f)
	case "Step":
		return DecodeStep(f)
	case "Target":
		return DecodeTarget(f)
	case "Allow":
		return DecodeAllow(f)
	case "Site":
		return DecodeSite(f)
	case "Pool":
		return DecodePool(f)
	}
	return DecodeMachine(f)
}

// leaves lists the values in a struct by their paths; map and slice entries are named
// "[]", and names that stem from keys are left out.
func leaves(v reflect.Value, path string, into map[string]string) {
	switch {
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]():
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if strings.HasSuffix(path, "[]") && (name == "Name" || name == "Volume") {
				continue
			}
			leaves(v.Field(i), path+"."+name, into)
		}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		if v.Len() == 0 { // so that its leaves are known even if nothing fills them
			leaves(reflect.Zero(v.Type().Elem()), path+"[]", into)
		}
		for i := range v.Len() {
			leaves(v.Index(i), path+"[]", into)
		}
	default:
		into[path] = fmt.Sprint(v.Interface())
	}
}

// TestStructsMatchTables ties the tables and the structs: every row of a table shows
// in the struct, each in a place of its own, and every place has a row.
func TestStructsMatchTables(t *testing.T) {
	for _, k := range decoded() {
		empty := decodeLeaves(t, k.Name, Fields{})
		filled := map[string]string{} // place -> row
		for _, f := range k.Fields {
			path := strings.ReplaceAll(f.Path, "*", "key")
			for place, v := range decodeLeaves(t, k.Name, Fields{path: sample(f)}) {
				if v == empty[place] {
					continue
				}
				if other, taken := filled[place]; taken && other != f.Path {
					t.Errorf("%s%s is filled by %s and by %s", k.Name, place, other, f.Path)
				}
				filled[place] = f.Path
			}
		}
		checkTied(t, k, empty, filled)
	}
}

// decoded are the kinds that loops read as structs. A Kind becomes a table of its own.
func decoded() []Kind {
	return slices.DeleteFunc(slices.Clone(Kinds()), func(k Kind) bool { return k.Name == "Kind" })
}

func decodeLeaves(t *testing.T, kind string, f Fields) map[string]string {
	t.Helper()
	v, err := decodeAny(kind, f)
	if err != nil {
		t.Fatalf("%s %v: %v", kind, f, err)
	}
	all := map[string]string{}
	leaves(reflect.ValueOf(v), "", all)
	return all
}

func checkTied(t *testing.T, k Kind, places, filled map[string]string) {
	t.Helper()
	rows := map[string]bool{}
	for _, row := range filled {
		rows[row] = true
	}
	for _, f := range k.Fields {
		if !rows[f.Path] {
			t.Errorf("%s: no struct shows %s", k.Name, f.Path)
		}
	}
	for place := range places {
		counter := k.Name != "Pod" && (place == ".Lifecycle.Restart" || place == ".Lifecycle.Skip" || place == ".Lifecycle.From" || place == ".Lifecycle.Mode")
		parent := k.Name == "PinnedDeployment" && strings.Contains(place, ".Parent.")
		if filled[place] == "" && !counter && !parent {
			t.Errorf("%s%s has no row in the table", k.Name, place)
		}
	}
}

func TestDecodePod(t *testing.T) {
	specs, err := ParseYAML("web.yaml", []byte(examplePod))
	if err != nil {
		t.Fatal(err)
	}
	pod, err := DecodePod(Effective("Pod", specs[0].Fields))
	if err != nil {
		t.Fatal(err)
	}
	want := PodSpec{
		Containers: []Container{{
			Name: "app", Image: "localhost/hello:1", Args: []string{"--listen", "[::]:8080"},
			Env: map[string]string{"GREETING": "hello"}, Ports: map[string]uint16{"http": 8080}, CPU: 500, Memory: 64 << 20,
			Mounts: []Mount{{Volume: "logs", Path: "/a"}, {Volume: "data", Path: "/b", ReadOnly: true}},
		}},
		Require: map[string]string{"disk": "ssd"}, Restart: RestartAlways,
		Stop: Stop{Signal: "SIGTERM", Grace: 10 * time.Second}, Partition: PartitionPinned, Grace: 30 * time.Second,
		Volumes: []Volume{{"data", VolumeDirectory}, {"logs", VolumeDirectory}}, IPv4: IPv4Masquerade,
	}
	if !reflect.DeepEqual(pod.Spec, want) {
		t.Errorf("got  %+v\nwant %+v", pod.Spec, want)
	}
	if cpu, memory := pod.Spec.Need(); cpu != 500 || memory != 64<<20 {
		t.Errorf("needs %d, %d", cpu, memory)
	}
}

const examplePod = `kind: Pod
name: web
spec:
  containers:
    app:
      image: localhost/hello:1
      args: [--listen, "[::]:8080"]
      env: {GREETING: hello}
      resources: {cpu: 500m, memory: 64Mi}
      ports: {http: 8080}
      mounts: {data: {path: /b, readonly: true}, logs: {path: /a}}
  volumes: {data: {type: directory}, logs: {type: directory}}
  require: {disk: ssd}
`

func TestDecodeRefusesWrongTypes(t *testing.T) {
	for _, k := range decoded() {
		for _, f := range k.Fields {
			path := strings.ReplaceAll(f.Path, "*", "key")
			if _, err := decodeAny(k.Name, Fields{path: `{"a":1}`}); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %s took a map: %v", k.Name, path, err)
			}
		}
	}
}

func TestAllocatable(t *testing.T) {
	m, err := DecodeMachine(Fields{
		"status.capacity.cpu": CPU(4000), "status.capacity.memory": Bytes(1 << 30),
		"spec.reserve.cpu": CPU(500), "spec.reserve.memory": Bytes(2 << 30),
	})
	if got := m.Allocatable(); err != nil || got != (Resources{CPU: 3500}) {
		t.Errorf("got %+v, %v: a reserve beyond the capacity leaves nothing", got, err)
	}
}

func BenchmarkDecodePod(b *testing.B) {
	specs, err := ParseYAML("web.yaml", []byte(examplePod))
	if err != nil {
		b.Fatal(err)
	}
	f := Effective("Pod", specs[0].Fields)
	for b.Loop() {
		if _, err := DecodePod(f); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEffective(b *testing.B) {
	specs, err := ParseYAML("web.yaml", []byte(examplePod))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		Effective("Pod", specs[0].Fields)
	}
}

func BenchmarkOwnerOf(b *testing.B) {
	for b.Loop() {
		OwnerOf("Pod", "status.containers.app.pid")
	}
}
