package text

import (
	"fmt"
	"strconv"
	"time"
)

// age is how long ago a time in Unix milliseconds was, in one or two units.
func (s Style) age(ms int64) string {
	if ms == 0 {
		return none
	}
	return Age(s.Now.Sub(time.UnixMilli(ms)))
}

func (s Style) ago(ms int64) string {
	if ms == 0 {
		return none
	}
	return s.age(ms) + " ago"
}

// until is the time that is left to one in Unix milliseconds.
func (s Style) until(ms int64) string {
	left := time.UnixMilli(ms).Sub(s.Now)
	if left <= 0 {
		return "now"
	}
	return "in " + Took(left)
}

// Age prints a duration roughly, as "5s", "3m", "2h" or "4d". What lies in the future
// by another machine's clock is "0s".
func Age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + "d"
}

// Took prints a duration to three digits or so: "45ms", "1.25s", "2m3s".
func Took(d time.Duration) string {
	switch {
	case d < 0:
		return "0ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func tookMs(ms int64) string { return Took(time.Duration(ms) * time.Millisecond) }

// size prints bytes to two digits, in binary units.
func size(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return strconv.FormatInt(n, 10)
	}
	value, unit := float64(n)/1024, 0
	for value >= 1000 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	if value < 10 {
		return fmt.Sprintf("%.1f%ci", value, units[unit])
	}
	return fmt.Sprintf("%.0f%ci", value, units[unit])
}

// clock prints a moment of the last day by its time alone, an older one with its date.
func (s Style) clock(ms int64) string {
	t := time.UnixMilli(ms).In(s.Now.Location())
	if age := s.Now.Sub(t); age > -time.Hour && age < 24*time.Hour {
		return t.Format("15:04:05.000")
	}
	return t.Format("2006-01-02 15:04:05")
}
