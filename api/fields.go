package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The typed readers return the zero value for a field that is absent or of another
// type. Fields that come from an object were validated at the door and on every
// merge, so that only absence is left to ask for: see [Fields.Has].

// Has reports whether the field is present.
func (f Fields) Has(path string) bool { _, ok := f[path]; return ok }

// String reads a string.
func (f Fields) String(path string) string { return get(f, path, readString) }

// Int reads an integer.
func (f Fields) Int(path string) int64 { return get(f, path, readInt) }

// Bool reads a truth value.
func (f Fields) Bool(path string) bool { return f[path] == "true" }

// Strings reads a list of strings.
func (f Fields) Strings(path string) []string { return get(f, path, readStrings) }

// CPU reads thousandths of a core.
func (f Fields) CPU(path string) int64 { return get(f, path, readCPU) }

// Bytes reads a size in bytes.
func (f Fields) Bytes(path string) int64 { return get(f, path, readBytes) }

// Duration reads a duration.
func (f Fields) Duration(path string) time.Duration { return get(f, path, readDuration) }

// Time reads a time.
func (f Fields) Time(path string) time.Time { return get(f, path, readTime) }

// get reads one field. Absence is frequent, and no error has to be made for it.
func get[T any](f Fields, path string, parse func(string) (T, error)) T {
	raw, ok := f[path]
	if !ok {
		var none T
		return none
	}
	v, _ := parse(raw)
	return v
}

// Sub returns the fields below prefix, with paths that begin behind it.
func (f Fields) Sub(prefix string) Fields {
	sub := Fields{}
	for path, v := range f {
		if Below(path, prefix) {
			sub[path[len(prefix)+1:]] = v
		}
	}
	return sub
}

// Keys returns the keys of the map at prefix, unquoted and sorted. An empty prefix
// stands for the top.
func (f Fields) Keys(prefix string) []string {
	if prefix != "" {
		prefix += "."
	}
	var keys []string
	for path := range f {
		if rest, below := strings.CutPrefix(path, prefix); below {
			// Most maps have few keys with many fields each.
			if raw, _, _ := cut(rest); len(keys) > 8 || !slices.Contains(keys, raw) {
				keys = append(keys, raw)
			}
		}
	}
	for i, raw := range keys {
		keys[i] = unescape(raw)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Paths returns all paths, sorted.
func (f Fields) Paths() []string {
	paths := make([]string, 0, len(f))
	for path := range f {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}

// Clone returns a copy that shares nothing; never nil.
func (f Fields) Clone() Fields {
	c := make(Fields, len(f))
	maps.Copy(c, f)
	return c
}

// Select returns the fields that a pattern covers.
func (f Fields) Select(patterns ...string) Fields {
	sel := Fields{}
	for path, v := range f {
		if slices.ContainsFunc(patterns, func(p string) bool { return Covers(p, path) }) {
			sel[path] = v
		}
	}
	return sel
}

func readString(raw string) (string, error) {
	if len(raw) >= 2 && raw[0] == '"' && plain(raw[1:len(raw)-1]) && raw[len(raw)-1] == '"' {
		return raw[1 : len(raw)-1], nil
	}
	var s *string
	if err := json.Unmarshal([]byte(raw), &s); err != nil || s == nil {
		return "", fmt.Errorf("%s is not a string", raw)
	}
	return *s, nil
}

func readInt(raw string) (int64, error) {
	n, err := strconv.ParseInt(raw, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is not a whole number", raw)
	}
	return n, nil
}

func readBool(raw string) (bool, error) {
	if raw != "true" && raw != "false" {
		return false, fmt.Errorf("%s is not true or false", raw)
	}
	return raw == "true", nil
}

func readStrings(raw string) ([]string, error) {
	if len(raw) >= 4 && raw[:2] == `["` && raw[len(raw)-2:] == `"]` {
		if list := strings.Split(raw[2:len(raw)-2], `","`); !slices.ContainsFunc(list, func(s string) bool { return !plain(s) }) {
			return list, nil
		}
	}
	var items []*string
	if err := json.Unmarshal([]byte(raw), &items); err != nil || items == nil {
		return nil, fmt.Errorf("%s is not a list of strings", raw)
	}
	list := make([]string, len(items))
	for i, s := range items {
		if s == nil {
			return nil, fmt.Errorf("%s is not a list of strings", raw)
		}
		list[i] = *s
	}
	return list, nil
}

// readUnit reads a string with a unit, or a plain whole number as such a string.
func readUnit[T any](raw string, parse func(string) (T, error)) (T, error) {
	if !strings.HasPrefix(raw, `"`) {
		if _, err := readInt(raw); err == nil {
			return parse(raw)
		}
	}
	s, err := readString(raw)
	if err != nil {
		var none T
		return none, err
	}
	return parse(s)
}

func readCPU(raw string) (int64, error)   { return readUnit(raw, ParseCPU) }
func readBytes(raw string) (int64, error) { return readUnit(raw, ParseBytes) }

func readDuration(raw string) (time.Duration, error) { return readUnit(raw, ParseDuration) }
func readTime(raw string) (time.Time, error)         { return readUnit(raw, parseTime) }

func parseTime(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a time; write it as in 2006-01-02T15:04:05Z", s)
	}
	return t.UTC(), nil
}
