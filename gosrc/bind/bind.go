// Package bind is the control plane: the functions that gopy wraps into the Python extension
// xla_go._native. Python's own layer calls them; users do not.
//
// Only integers, floats, booleans, text and (address, length) pairs cross here: a slice would cost
// microseconds per element, and text must hold no NUL byte, since it ends there. Lists
// travel as text with one item a line, structured data as JSON.
//
// Every call releases Python's interpreter lock. A call that may wait says BLOCKING; waiting for a
// device is split into slices (see Wait), so that Python can look for signals between them.
//
// An error's text begins with its status code's name, for example "INVALID_ARGUMENT: ...".
package bind

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"xla_go/gosrc/env"
	"xla_go/gosrc/status"
)

// Version of the runtime, set at link time from the Python distribution's version.
var version = "0+unknown"

// The heap of this process's Go part is a few megabytes of bookkeeping beside the memory of devices. With
// Go's own 100 percent it would be collected hundreds of times a second when small programs run one
// after another; the user's GOGC goes first.
func init() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectionPercent)
	}
}

const collectionPercent = 400

// Version gives the runtime's version.
func Version() string { return version }

// SetEnvironment hands over the process environment as a JSON object of names and values. The Go
// side reads no variable that is not in it. A function whose only result is an error would leak a text
// per call (gopy frees none), hence the other result, here and below.
func SetEnvironment(variables string) (ok bool, err error) {
	values := map[string]string{}
	if err := json.Unmarshal([]byte(variables), &values); err != nil {
		return false, status.Errorf(status.InvalidArgument, "SetEnvironment(): expected a JSON object of text, got %v", err)
	}
	env.Replace(values)
	return true, nil
}

// guard turns a panic into an error, deferred in every function that can reach the rest of the
// runtime: a panic that left the extension would end the process.
func guard(err *error) {
	if cause := recover(); cause != nil {
		*err = status.Errorf(status.Internal, "panic in the runtime: %s\n%s", fmt.Sprint(cause), debug.Stack())
	}
}

// lines joins names for the way to Python.
func lines(names []string) string { return strings.Join(names, "\n") }

// split is the reverse of lines.
func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// integers reads numbers with commas between them.
func integers(function, what, text string) ([]int64, error) {
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(text, ",")
	numbers := make([]int64, len(parts))
	for i, part := range parts {
		n, err := strconv.ParseInt(strings.TrimSpace(part), 10, 64)
		if err != nil {
			return nil, status.Errorf(status.InvalidArgument, "%s(): expected %s as numbers with commas between them, got %q", function, what, text)
		}
		numbers[i] = n
	}
	return numbers, nil
}
