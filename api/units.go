package api

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// ParseCPU reads an amount of processor, "2" or "500m", in thousandths of a core.
func ParseCPU(s string) (int64, error) {
	digits, milli := strings.CutSuffix(s, "m")
	n, ok := parseDigits(digits)
	switch {
	case !ok && looksFractional(digits):
		return 0, fraction(s, digits, unit{size: 1000}, "thousandths of a core, as in 500m or 1500m", FormatCPU)
	case !ok:
		return 0, fmt.Errorf("%q is not an amount of cpu; write cores or thousandths of a core, as in 2 or 500m", s)
	case milli:
		return n, nil
	case n > math.MaxInt64/1000:
		return 0, fmt.Errorf("%q is too large", s)
	}
	return n * 1000, nil
}

// FormatCPU prints thousandths of a core as ParseCPU reads them.
func FormatCPU(milli int64) string {
	if milli%1000 == 0 {
		return strconv.FormatInt(milli/1000, 10)
	}
	return strconv.FormatInt(milli, 10) + "m"
}

type unit struct {
	name string
	size int64
}

// byteUnits is sorted by size, the binary unit before its decimal neighbour.
var byteUnits = []unit{
	{"Ti", 1 << 40}, {"T", 1e12}, {"Gi", 1 << 30}, {"G", 1e9},
	{"Mi", 1 << 20}, {"M", 1e6}, {"Ki", 1 << 10}, {"k", 1e3}, {"", 1},
}

// ParseBytes reads a size, "64Mi", "1G" or "4096", in bytes.
func ParseBytes(s string) (int64, error) {
	for _, u := range byteUnits {
		digits, found := strings.CutSuffix(s, u.name)
		if !found {
			continue
		}
		n, ok := parseDigits(digits)
		if !ok {
			break
		}
		if n > math.MaxInt64/u.size {
			return 0, fmt.Errorf("%q is too large", s)
		}
		return n * u.size, nil
	}
	for _, u := range byteUnits {
		if digits, found := strings.CutSuffix(s, u.name); found && looksFractional(digits) {
			return 0, fraction(s, digits, u, "a whole number in a smaller unit, as in 1536Mi for 1.5Gi", FormatBytes)
		}
	}
	return 0, fmt.Errorf("%q is not a size; write a number with Ki, Mi, Gi, Ti, k, M, G or T, as in 64Mi", s)
}

// FormatBytes prints a size exactly, in the unit that needs the fewest digits.
func FormatBytes(n int64) string {
	if n == 0 {
		return "0"
	}
	best, fewest := "", int64(math.MaxInt64)
	for _, u := range byteUnits {
		if n%u.size == 0 && n/u.size < fewest {
			best, fewest = u.name, n/u.size
		}
	}
	return strconv.FormatInt(fewest, 10) + best
}

// durationUnits is sorted by size.
var durationUnits = []unit{
	{"h", int64(time.Hour)}, {"m", int64(time.Minute)}, {"s", int64(time.Second)},
	{"ms", int64(time.Millisecond)}, {"us", int64(time.Microsecond)}, {"ns", 1},
}

// ParseDuration reads a duration of whole numbers with units, "10s" or "1h30m".
func ParseDuration(s string) (time.Duration, error) {
	if _, bare := parseDigits(s); bare {
		return 0, fmt.Errorf("%q has no unit; write h, m, s or ms behind the number, as in %ss", s, s)
	}
	var total int64
	for rest := s; rest != "" || s == ""; {
		digits := rest[:digitCount(rest)]
		rest = rest[len(digits):]
		name := rest[:letterCount(rest)]
		rest = rest[len(name):]
		n, ok := parseDigits(digits)
		size := durationUnit(name)
		if !ok || size == 0 {
			return 0, fmt.Errorf("%q is not a duration; write whole numbers with h, m, s or ms, as in 10s or 1h30m", s)
		}
		if n > (math.MaxInt64-total)/size {
			return 0, fmt.Errorf("%q is too long", s)
		}
		total += n * size
	}
	return time.Duration(total), nil
}

// FormatDuration prints a duration exactly, as one number in the largest unit that
// divides it.
func FormatDuration(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	for _, u := range durationUnits {
		if int64(d)%u.size == 0 {
			return strconv.FormatInt(int64(d)/u.size, 10) + u.name
		}
	}
	panic("unreachable: every duration is a number of nanoseconds")
}

func durationUnit(name string) int64 {
	for _, u := range durationUnits {
		if u.name == name {
			return u.size
		}
	}
	return 0
}

// parseDigits reads a plain decimal number without a sign.
func parseDigits(s string) (int64, bool) {
	if s == "" || digitCount(s) != len(s) {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

func looksFractional(s string) bool {
	whole, part, dot := strings.Cut(s, ".")
	return dot && digitCount(whole) == len(whole) && digitCount(part) == len(part) && whole+part != ""
}

// fraction refuses a number with a fraction and says how to write the same amount
// without one, or else what to write.
func fraction(s, digits string, u unit, otherwise string, format func(int64) string) error {
	if n, ok := exact(digits, u.size); ok {
		otherwise = format(n)
	}
	return fmt.Errorf("%q is a fraction; write %s", s, otherwise)
}

// exact multiplies a decimal fraction by a size, where that gives a whole number.
func exact(digits string, size int64) (int64, bool) {
	r, ok := new(big.Rat).SetString("0" + digits)
	if !ok {
		return 0, false
	}
	r.Mul(r, new(big.Rat).SetInt64(size))
	return r.Num().Int64(), r.IsInt() && r.Num().IsInt64()
}

func digitCount(s string) int {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}

func letterCount(s string) int {
	i := 0
	for i < len(s) && s[i] >= 'a' && s[i] <= 'z' {
		i++
	}
	return i
}
