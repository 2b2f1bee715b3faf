package main

import (
	"testing"

	"starling.dev/starling/api"
)

func TestImportPrintsSpecsAndWhatIsLeftOut(t *testing.T) {
	file := write(t, "compose.yaml", "services: {web: {image: localhost/hello:1, cap_add: [SYS_NICE]}}")
	r := execute(t, "", typed{args: []string{"import", file, "-n", "shop"}})
	specs, err := api.ParseYAML("imported", []byte(r.out))
	if err != nil || len(specs) != 1 || specs[0].Key != (api.Key{Kind: "Pod", Namespace: "shop", Name: "web"}) {
		t.Errorf("import printed %q, %v", r.out, err)
	}
	if want := "left out: services.web.cap_add: there is nothing like it here\n"; r.errs != want {
		t.Errorf("import said %q, want %q", r.errs, want)
	}
}
