package api

import (
	"fmt"
	"time"
)

// reader reads typed values of fields and keeps the first error. An absent field
// is the zero value and no error: a step sees only the fields that it declared.
type reader struct {
	f   Fields
	x   index
	err error
}

func newReader(f Fields) *reader { return &reader{f: f, x: f.index()} }

// read reads one field; a free function because methods have no type parameters.
func read[T any](r *reader, path string, parse func(string) (T, error)) T {
	var none T
	raw, ok := r.f[path]
	if !ok {
		return none
	}
	v, err := parse(raw)
	if err != nil {
		if r.err == nil {
			r.err = fmt.Errorf("read field %s: %w", path, err)
		}
		return none
	}
	return v
}

func (r *reader) str(path string) string       { return read(r, path, readString) }
func (r *reader) int(path string) int64        { return read(r, path, readInt) }
func (r *reader) bool(path string) bool        { return read(r, path, readBool) }
func (r *reader) strings(path string) []string { return read(r, path, readStrings) }

func (r *reader) cpu(path string) int64              { return read(r, path, readCPU) }
func (r *reader) bytes(path string) int64            { return read(r, path, readBytes) }
func (r *reader) duration(path string) time.Duration { return read(r, path, readDuration) }
func (r *reader) time(path string) time.Time         { return read(r, path, readTime) }

func (r *reader) port(path string) uint16 {
	return read(r, path, func(raw string) (uint16, error) {
		n, err := readInt(raw)
		if err == nil && (n < 1 || n > 65535) {
			err = fmt.Errorf("%d is not a port", n)
		}
		return uint16(n), err
	})
}

// stringMap reads a map of strings; nil where there is none.
func (r *reader) stringMap(path string) map[string]string {
	return readMap(r, path, (*reader).str)
}

func (r *reader) portMap(path string) map[string]uint16 {
	return readMap(r, path, (*reader).port)
}

func readMap[T any](r *reader, path string, value func(*reader, string) T) map[string]T {
	keys := r.x.keys(path)
	if len(keys) == 0 {
		return nil
	}
	m := make(map[string]T, len(keys))
	for _, key := range keys {
		m[key] = value(r, Child(path, key))
	}
	return m
}
