package api

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestCanonical(t *testing.T) {
	for _, tt := range []struct{ in, want, err string }{
		{in: ` "a\u003cb\u0026" `, want: `"a<b&"`},
		{in: `"\u00e9\/"`, want: `"é/"`},
		{in: `-0`, want: `0`},
		{in: `9223372036854775807`, want: `9223372036854775807`},
		{in: `[ 1, true , null, {"b":1,"a":[2]} ]`, want: `[1,true,null,{"a":[2],"b":1}]`},
		{in: `[<]`, err: "read JSON value"},
		{in: `1 2`, err: "there is more behind the value"},
		{in: `1.0`, err: "1.0 is not a whole number"},
		{in: `[1e3]`, err: "1e3 is not a whole number"},
		{in: `{"a":{"b":0.5}}`, err: "0.5 is not a whole number"},
		{in: `9223372036854775808`, err: "does not fit in 64 bits"},
		{in: "\"\xff\"", err: "not valid UTF-8"},
		{in: ``, err: "read JSON value"},
	} {
		got, err := Canonical(tt.in)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("Canonical(%q) = %q, %v", tt.in, got, err)
		}
	}
}

// TestWritersAreCanonical: what loops write needs no second form, and reads back.
func TestWritersAreCanonical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		list := rapid.SliceOf(rapid.String()).Draw(t, "list")
		n := rapid.Int64().Draw(t, "n")
		size := rapid.Int64Min(0).Draw(t, "size")
		at := time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "seconds"), rapid.Int64Range(0, 1e9-1).Draw(t, "nanoseconds")).UTC()
		f := Fields{
			"string": Str(s), "list": List(list...), "int": Int(n), "bool": Bool(n > 0), "cpu": CPU(size),
			"bytes": Bytes(size), "duration": Duration(time.Duration(size)), "time": Time(at),
		}
		for path, v := range f {
			if got, err := Canonical(v); err != nil || got != v {
				t.Fatalf("%s: %s is not canonical: %s, %v", path, v, got, err)
			}
		}
		if f.String("string") != s || !slices.Equal(f.Strings("list"), list) || f.Int("int") != n || f.Bool("bool") != (n > 0) {
			t.Fatalf("read back something else than %v", f)
		}
		if f.CPU("cpu") != size || f.Bytes("bytes") != size || f.Duration("duration") != time.Duration(size) || !f.Time("time").Equal(at) {
			t.Fatalf("read back something else than %v", f)
		}
	})
}

func TestStrAgreesWithJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		var back string
		if err := json.Unmarshal([]byte(Str(s)), &back); err != nil || back != s {
			t.Fatalf("%q became %s became %q, %v", s, Str(s), back, err)
		}
	})
}

func TestReadersTakeNothingElse(t *testing.T) {
	f := Fields{"n": "7", "s": `"x"`, "b": "true", "l": `["a",1]`, "null": "null"}
	if f.String("n") != "" || f.Int("s") != 0 || f.Bool("s") || f.Strings("l") != nil || f.Strings("null") != nil || f.Bytes("b") != 0 {
		t.Error("a reader took a value of another type")
	}
	if f.CPU("n") != 7000 || f.Bytes("n") != 7 {
		t.Error("a plain number is an amount")
	}
	if !f.Time("absent").IsZero() || f.Has("absent") {
		t.Error("an absent field is not absent")
	}
}

func TestUnits(t *testing.T) {
	cpu := func(s string) (int64, error) { return ParseCPU(s) }
	duration := func(s string) (int64, error) { d, err := ParseDuration(s); return int64(d), err }
	for _, tt := range []struct {
		name, in string
		parse    func(string) (int64, error)
		want     int64 // -1: refused
	}{
		{"cpu", "2", cpu, 2000}, {"cpu", "500m", cpu, 500}, {"cpu", "0", cpu, 0}, {"cpu", "0.5", cpu, -1}, {"cpu", "-1", cpu, -1},
		{"cpu", "", cpu, -1}, {"cpu", "m", cpu, -1}, {"cpu", "9223372036854776", cpu, -1}, {"cpu", "1 ", cpu, -1},
		{"bytes", "64Mi", ParseBytes, 64 << 20}, {"bytes", "1G", ParseBytes, 1e9}, {"bytes", "1k", ParseBytes, 1000}, {"bytes", "7", ParseBytes, 7},
		{"bytes", "8Ti", ParseBytes, 8 << 40}, {"bytes", "8388608Ti", ParseBytes, -1}, {"bytes", "1K", ParseBytes, -1}, {"bytes", "Mi", ParseBytes, -1}, {"bytes", "1.5G", ParseBytes, -1},
		{"duration", "10s", duration, 10e9}, {"duration", "1h30m", duration, 5400e9}, {"duration", "250ms", duration, 250e6}, {"duration", "0s", duration, 0},
		{"duration", "", duration, -1}, {"duration", "10", duration, -1}, {"duration", "1d", duration, -1}, {"duration", "s", duration, -1}, {"duration", "2562048h", duration, -1},
	} {
		got, err := tt.parse(tt.in)
		if (err != nil) != (tt.want == -1) || err == nil && got != tt.want {
			t.Errorf("%s %q: %d, %v", tt.name, tt.in, got, err)
		}
	}
	for in, want := range map[int64]string{0: "0", 1000: "1k", 1024: "1Ki", 1023: "1023", 1536 << 20: "1536Mi", 3e9: "3G", 1024000: "1000Ki", math.MaxInt64: "9223372036854775807"} {
		if got := FormatBytes(in); got != want {
			t.Errorf("FormatBytes(%d) = %s, want %s", in, got, want)
		}
	}
}
