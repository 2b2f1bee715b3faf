package oci

import "testing"

func TestUsageIsOfWhatRuns(t *testing.T) {
	f := newFixture(t)
	f.ensure(app("wait"))
	list, err := f.Usage(f.ctx)
	if err != nil || len(list) != 1 {
		t.Fatalf("Usage returned %+v, %v", list, err)
	}
	if u := list[0]; u.Container != "app" || u.CPU <= 0 || u.Memory <= 0 {
		t.Errorf("Usage returned %+v", u)
	}
	before := list[0].CPU
	if _, code := f.output("app", "/bin/probe", "env"); code != 0 {
		t.Fatalf("the command ended with %d", code)
	}
	if list, err = f.Usage(f.ctx); err != nil || len(list) != 1 || list[0].CPU <= before {
		t.Errorf("after a command ran, Usage returned %+v, %v; it was %v", list, err, before)
	}
	if err := f.Sweep(f.ctx, func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	if list, err = f.Usage(f.ctx); err != nil || len(list) != 0 {
		t.Errorf("of nothing Usage returned %+v, %v", list, err)
	}
}
