package api

import "testing"

// FuzzUnits: what is read as an amount is written so that it reads as the same.
func FuzzUnits(f *testing.F) {
	for _, s := range []string{"500m", "1.5", "64Mi", "1e3", "9223372036854775807", "10s", "1h30m", "0", "-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := ParseCPU(s); err == nil {
			if again, err := ParseCPU(FormatCPU(n)); err != nil || again != n {
				t.Fatalf("%q is %d, written %q, which is %d (%v)", s, n, FormatCPU(n), again, err)
			}
		}
		if n, err := ParseBytes(s); err == nil {
			if again, err := ParseBytes(FormatBytes(n)); err != nil || again != n {
				t.Fatalf("%q is %d, written %q, which is %d (%v)", s, n, FormatBytes(n), again, err)
			}
		}
		if d, err := ParseDuration(s); err == nil {
			if again, err := ParseDuration(FormatDuration(d)); err != nil || again != d {
				t.Fatalf("%q is %d, written %q, which is %d (%v)", s, d, FormatDuration(d), again, err)
			}
		}
	})
}

// FuzzCanonical: the canonical text of a JSON value is its own.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`"a"`, "1", "-0", "1e2", "[1,[2]]", `{"b":1,"a":[]}`, "null", "true"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := Canonical(s)
		if err != nil {
			return
		}
		if again, err := Canonical(v); err != nil || again != v {
			t.Fatalf("%q is %q, and that is %q (%v)", s, v, again, err)
		}
	})
}

// FuzzParseKey: an object's key as a person writes it.
func FuzzParseKey(f *testing.F) {
	for _, s := range []string{"web", "pod/web", "pods/shop/web", "machine/m1", "//", "Pod/", "a/b/c/d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		key, err := ParseKey(s)
		if err != nil {
			return
		}
		if again, err := ParseKey(key.String()); err != nil || again != key {
			t.Fatalf("%q is %+v, written %q, which is %+v (%v)", s, key, key, again, err)
		}
	})
}
