// Package env reads the process environment.
//
// A Go library inside another program sees the environment as it was when the process started,
// not what the program has set since. The embedding layer therefore hands its environment over
// with Replace before the runtime first looks; without that, the process's own is read.
package env

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

var replaced atomic.Pointer[map[string]string]

// Replace makes variables the whole environment that this package reads. The map must not be
// changed afterwards. A nil map goes back to the process's own environment.
func Replace(variables map[string]string) {
	if variables == nil {
		replaced.Store(nil)
		return
	}
	replaced.Store(&variables)
}

// Lookup gives a variable's value and whether it is set.
func Lookup(name string) (string, bool) {
	if variables := replaced.Load(); variables != nil {
		value, ok := (*variables)[name]
		return value, ok
	}
	return os.LookupEnv(name)
}

// String gives a variable's value, or fallback where it is not set.
func String(name, fallback string) string {
	if value, ok := Lookup(name); ok {
		return value
	}
	return fallback
}

// Int gives a variable's value as an integer; fallback where it is unset, empty or no integer.
func Int(name string, fallback int) int {
	value, _ := Lookup(name)
	if n, err := strconv.Atoi(strings.TrimSpace(value)); err == nil {
		return n
	}
	return fallback
}

// Float gives a variable's value as a number; fallback where it is unset, empty or no number.
func Float(name string, fallback float64) float64 {
	value, _ := Lookup(name)
	if x, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
		return x
	}
	return fallback
}

// Bool gives a variable's truth: "1", "true", "yes" and "on" are true, "0", "false", "no" and
// "off" are false, in any case; anything else is fallback.
func Bool(name string, fallback bool) bool {
	value, _ := Lookup(name)
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "1", "true", "yes", "on":
		return true
	case "0", "false", "no", "off":
		return false
	}
	return fallback
}
