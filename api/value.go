package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Str is the canonical JSON text of a string: valid UTF-8, no HTML escaping.
func Str(s string) string {
	if plain(s) {
		return `"` + s + `"`
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic("unreachable: every string encodes as JSON: " + err.Error())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// plain reports whether a string stands for itself between quotes.
func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf-1 || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// Int is the canonical JSON text of an integer.
func Int[T ~int | ~int32 | ~int64 | ~uint16 | ~uint32](n T) string {
	return strconv.FormatInt(int64(n), 10)
}

// Bool is the canonical JSON text of a truth value.
func Bool(b bool) string { return strconv.FormatBool(b) }

// List is the canonical JSON text of a list of strings.
func List(items ...string) string {
	var b strings.Builder
	b.WriteByte('[')
	for i, s := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(Str(s))
	}
	b.WriteByte(']')
	return b.String()
}

// CPU is the canonical JSON text of thousandths of a core.
func CPU(milli int64) string { return Str(FormatCPU(milli)) }

// Bytes is the canonical JSON text of a size in bytes.
func Bytes(n int64) string { return Str(FormatBytes(n)) }

// Duration is the canonical JSON text of a duration.
func Duration(d time.Duration) string { return Str(FormatDuration(d)) }

// Time is the canonical JSON text of a time, in UTC.
func Time(t time.Time) string { return Str(t.UTC().Format(time.RFC3339Nano)) }

// errFraction says why a number with a fraction or an exponent is refused: replicas
// on different hardware must compute the same bytes.
var errFraction = errors.New("is not a whole number; fractions are not supported, so use a smaller unit")

// Canonical rewrites a JSON text in the one form that is stored: no spaces, members
// sorted, no HTML escaping, whole numbers of 64 bits only.
func Canonical(text string) (string, error) {
	v, err := decodeJSON(text)
	if err != nil {
		return "", err
	}
	return encodeValue(v)
}

func decodeJSON(text string) (any, error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("the value is not valid UTF-8")
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("read JSON value: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read JSON value: there is more behind the value")
	}
	return v, nil
}

// encodeValue is the canonical text of a decoded JSON value. Go's own encoder sorts
// members.
func encodeValue(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return Str(v), nil
	case json.Number:
		return canonicalNumber(v.String())
	}
	if err := checkNumbers(v); err != nil {
		return "", err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", fmt.Errorf("write JSON value: %w", err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// checkNumbers makes every number of a nested value canonical, in place.
func checkNumbers(v any) (err error) {
	switch v := v.(type) {
	case []any:
		for i := range v {
			if v[i], err = wholeNumber(v[i]); err != nil {
				return err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = wholeNumber(v[k]); err != nil {
				return err
			}
		}
	case float64, float32:
		return fmt.Errorf("%v %w", v, errFraction)
	}
	return nil
}

func wholeNumber(v any) (any, error) {
	n, ok := v.(json.Number)
	if !ok {
		return v, checkNumbers(v)
	}
	s, err := canonicalNumber(n.String())
	return json.Number(s), err
}

func canonicalNumber(s string) (string, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	switch canonical := strconv.FormatInt(n, 10); {
	case errors.Is(err, strconv.ErrRange):
		return "", fmt.Errorf("%s does not fit in 64 bits", s)
	case err != nil && strings.Trim(s, "+-.eE0123456789") == "":
		return "", fmt.Errorf("%s %w", s, errFraction)
	case err != nil || canonical != s && s != "-0":
		return "", notPlain(s)
	default:
		return canonical, nil
	}
}

// notPlain refuses what readers would take for different numbers, as 010 or 0x10.
func notPlain(s string) error {
	return fmt.Errorf("%s is not a plain decimal number; write it without leading zeros, prefixes and underscores", s)
}
