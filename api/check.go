package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// normalize checks a value against its field and rewrites it in the one form that is
// stored: "1000m" of cpu becomes "1", so that saying the same in other words makes
// no rev.
func (f *Field) normalize(raw string) (string, error) {
	switch f.Type {
	case TypeString:
		return f.normalizeString(raw)
	case TypeStrings:
		list, err := readStrings(raw)
		if err != nil {
			return "", f.mismatch(raw)
		}
		return List(list...), checkText(list...)
	case TypeInt, TypePort:
		return f.normalizeInt(raw)
	case TypeBool:
		b, err := readBool(raw)
		if err != nil {
			return "", f.mismatch(raw)
		}
		return Bool(b), nil
	case TypeCPU:
		return normalizeUnit(f, raw, ParseCPU, CPU)
	case TypeBytes:
		return normalizeUnit(f, raw, ParseBytes, Bytes)
	case TypeDuration:
		return normalizeUnit(f, raw, ParseDuration, Duration)
	case TypeTime:
		return normalizeUnit(f, raw, parseTime, func(t time.Time) string { return Time(t) })
	default:
		return Canonical(raw)
	}
}

func (f *Field) normalizeString(raw string) (string, error) {
	s, err := readString(raw)
	if err != nil {
		return "", f.mismatch(raw)
	}
	if len(f.Enum) > 0 && !slices.Contains(f.Enum, s) {
		hint := didYouMean(s, f.Enum)
		return "", fmt.Errorf("%q is not one of %s%s", s, strings.Join(f.Enum, ", "), hint)
	}
	if plain(s) && len(raw) == len(s)+2 && raw[1:len(raw)-1] == s {
		return raw, checkText(s) // it is written that way already
	}
	return Str(s), checkText(s)
}

func (f *Field) normalizeInt(raw string) (string, error) {
	if sortOf(raw) != "a number" {
		return "", f.mismatch(raw)
	}
	s, err := canonicalNumber(raw)
	if err != nil {
		return "", err
	}
	if n, _ := readInt(s); f.Type == TypePort && (n < 1 || n > 65535) {
		return "", fmt.Errorf("%s is not a port; ports are 1 to 65535", s)
	}
	return s, nil
}

func normalizeUnit[T any](f *Field, raw string, parse func(string) (T, error), write func(T) string) (string, error) {
	text := raw
	switch sortOf(raw) {
	case "a number":
		if len(raw) > 1 && raw[0] == '0' && digitCount(raw) == len(raw) {
			return "", notPlain(raw)
		}
	case "a string":
		s, err := readString(raw)
		if err != nil {
			return "", err
		}
		text = s
	default:
		return "", f.mismatch(raw)
	}
	v, err := parse(text)
	if err != nil {
		return "", err
	}
	return write(v), nil
}

// checkText refuses what no command line and no environment can carry.
func checkText(list ...string) error {
	for _, s := range list {
		if strings.ContainsRune(s, 0) {
			return fmt.Errorf("%q holds a NUL character", s)
		}
	}
	return nil
}

// mismatch says that a value is of another type than the field. A number in place of
// a string is what people write most; the remedy is quotes.
func (f *Field) mismatch(raw string) error {
	sort := sortOf(raw)
	if sort == "null" {
		return errors.New("there is no value; write one, or leave the field out")
	}
	text := fmt.Sprintf("this is %s, and the field takes %s", sort, article(string(f.Type)))
	scalar := sort == "a number" || sort == "a truth value"
	switch {
	case f.Type == TypeString && scalar:
		text += "; write \"" + raw + `"`
	case f.Type == TypeStrings && sort == "a string":
		text += "; write [" + raw + "]"
	case f.Type == TypeStrings && sort == "a list":
		text += quoteItem(raw)
	case f.Type != TypeStrings && (sort == "a map" || sort == "a list"):
		text += ". " + f.Doc // which says how it is written
	case f.Type == TypeBool:
		text += "; write true or false"
	case (f.Type == TypeInt || f.Type == TypePort) && sort == "a string":
		return notNumber(raw)
	}
	return errors.New(text)
}

// notNumber refuses a string in place of a whole number. Without quotes, too, a
// number beyond 64 bits or with an exponent is a string in YAML.
func notNumber(raw string) error {
	s, err := readString(raw)
	if err != nil {
		return err
	}
	if strings.Trim(s, "+-0123456789.eE_") != "" || s == "" {
		return fmt.Errorf("%q is not a number", s)
	}
	if _, err = canonicalNumber(s); err == nil {
		return fmt.Errorf("this is a string, and the field takes a number; write %s", s)
	}
	return err
}

// quoteItem names the first item of a list that is not a string.
func quoteItem(raw string) string {
	var items []json.RawMessage
	if json.Unmarshal([]byte(raw), &items) == nil {
		for _, item := range items {
			if sort := sortOf(string(item)); sort == "a number" || sort == "a truth value" {
				return fmt.Sprintf("; write %q in place of %s", item, item)
			}
		}
	}
	return "; put quotes around every item that is not a string"
}

func article(word string) string {
	if strings.ContainsRune("aeiou", rune(word[0])) {
		return "an " + word
	}
	return "a " + word
}

// sortOf names the sort of a JSON text by its first character.
func sortOf(raw string) string {
	if raw == "" {
		return "nothing"
	}
	switch raw[0] {
	case '"':
		return "a string"
	case '[':
		return "a list"
	case '{':
		return "a map"
	case 't', 'f':
		return "a truth value"
	case 'n':
		return "null"
	}
	return "a number"
}

// check returns why a key can't stand in a map with this rule; nil if it can.
func (r KeyRule) check(key string) error {
	switch r {
	case KeyName:
		return CheckName(key)
	case KeyLabel:
		prefix, name, qualified := strings.Cut(key, "/")
		if !qualified {
			return checkWord(key)
		}
		for part := range strings.SplitSeq(prefix, ".") {
			if err := CheckName(part); err != nil {
				return fmt.Errorf("%q before the slash is not a domain name: %w", prefix, err)
			}
		}
		return checkWord(name)
	case KeyProbe:
		names := []string{ProbeStartup, ProbeReadiness, ProbeLiveness}
		if !slices.Contains(names, key) {
			return fmt.Errorf("%q is not a probe; the probes are %s%s", key, strings.Join(names, ", "), didYouMean(key, names))
		}
	case KeyField:
		return checkFieldPath(key)
	case KeyEnv:
		if key == "" || strings.ContainsAny(key, "=\x00 \t\r\n") {
			return fmt.Errorf("%q is not a name for an environment variable: it must not be empty nor hold =, spaces or NUL", key)
		}
	}
	return nil
}

// CheckName returns why a name is not an RFC 1123 label; nil if it is one.
func CheckName(name string) error {
	ok := len(name) > 0 && len(name) <= 63 && name[0] != '-' && name[len(name)-1] != '-'
	for i := 0; ok && i < len(name); i++ {
		ok = isLower(name[i]) || isDigit(name[i]) || name[i] == '-'
	}
	if ok {
		return nil
	}
	return fmt.Errorf("%q is not a name: use 1 to 63 of a-z, 0-9 and -, with no - at either end", name)
}

// checkWord is the rule of label keys: like a name, with capitals, dots and underscores.
func checkWord(word string) error {
	ok := len(word) > 0 && len(word) <= 63
	for i := 0; ok && i < len(word); i++ {
		c := word[i]
		inner := i > 0 && i < len(word)-1 && (c == '-' || c == '_' || c == '.')
		ok = isLower(c) || isDigit(c) || c >= 'A' && c <= 'Z' || inner
	}
	if ok {
		return nil
	}
	return fmt.Errorf("%q is not a label: use 1 to 63 letters and digits, with -, _ or . between them", word)
}

func isLower(c byte) bool { return c >= 'a' && c <= 'z' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }
