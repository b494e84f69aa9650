package clienttest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// Outcome is how a case ended.
type Outcome string

// The outcomes. Unsupported is a plugin that says of itself that it lacks something; Skip is a case that does
// not apply, to the plugin or to its number of devices.
const (
	Pass        Outcome = "pass"
	Fail        Outcome = "fail"
	Unsupported Outcome = "unsupported"
	Skip        Outcome = "skip"
)

// T records what one case finds, as testing.T does for a test. Methods may be called from several goroutines,
// but those that stop the case (Fatal, Fatalf, FailNow, Skip, Unsupported) only from the one that runs it.
type T struct {
	subject *Subject

	mutex     sync.Mutex
	outcome   Outcome // Fail once anything was found
	text      []string
	helpers   map[string]bool
	cleanups  []func()
	clients   []*tracked
	temporary string
}

// Helper marks the calling function as one whose findings are those of its caller.
func (t *T) Helper() {
	var caller [1]uintptr
	if runtime.Callers(2, caller[:]) == 0 {
		return
	}
	frame, _ := runtime.CallersFrames(caller[:]).Next()
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.helpers == nil {
		t.helpers = map[string]bool{}
	}
	t.helpers[frame.Function] = true
}

// place gives the line that called the recorder, past all helpers. Called with the mutex held.
func (t *T) place() string {
	var callers [32]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for {
		frame, more := frames.Next()
		if !strings.Contains(frame.Function, "clienttest.(*T).") && frame.Function != "runtime.goexit" && !t.helpers[frame.Function] {
			return fmt.Sprintf("%s:%d", filepath.Base(frame.File), frame.Line)
		}
		if !more || frame.Function == "runtime.goexit" {
			return "after the case"
		}
	}
}

// Errorf records that the case fails and goes on.
func (t *T) Errorf(format string, arguments ...any) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.outcome = Fail
	t.text = append(t.text, t.place()+": "+fmt.Sprintf(format, arguments...))
}

// Error records that the case fails and goes on.
func (t *T) Error(arguments ...any) {
	t.Errorf("%s", strings.TrimSuffix(fmt.Sprintln(arguments...), "\n"))
}

// Fatalf records that the case fails and stops it.
func (t *T) Fatalf(format string, arguments ...any) {
	t.Errorf(format, arguments...)
	t.FailNow()
}

// Fatal records that the case fails and stops it.
func (t *T) Fatal(arguments ...any) {
	t.Error(arguments...)
	t.FailNow()
}

// FailNow stops the case, which fails.
func (t *T) FailNow() {
	t.mutex.Lock()
	t.outcome = Fail
	t.mutex.Unlock()
	runtime.Goexit()
}

// Failed says whether anything was found so far.
func (t *T) Failed() bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.outcome == Fail
}

// Skip stops a case that does not apply, with the reason. What was found before still makes it fail.
func (t *T) Skip(reason ...any) { t.stop(Skip, strings.TrimSuffix(fmt.Sprintln(reason...), "\n")) }

// Unsupported stops a case for which the plugin lacks something; err holds the plugin's own word.
func (t *T) Unsupported(err error) { t.stop(Unsupported, err.Error()) }

func (t *T) stop(outcome Outcome, reason string) {
	t.mutex.Lock()
	if t.outcome != Fail {
		t.outcome, t.text = outcome, []string{reason}
	}
	t.mutex.Unlock()
	runtime.Goexit()
}

// Cleanup has f called when the case has ended, the last one first.
func (t *T) Cleanup(f func()) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.cleanups = append(t.cleanups, f)
}

// TempDir gives a directory that is removed when the case has ended.
func (t *T) TempDir() string {
	t.Helper()
	if t.temporary != "" {
		return t.temporary
	}
	directory, err := os.MkdirTemp("", "conformance")
	if err != nil {
		t.Fatal(err)
	}
	t.temporary = directory
	t.Cleanup(func() { os.RemoveAll(directory) })
	return directory
}

// perform runs f on a goroutine of its own, so that a case can be stopped; a panic is a finding.
func (t *T) perform(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if cause := recover(); cause != nil {
				stack := make([]byte, 8<<10)
				t.Errorf("panic: %v\n%s", cause, stack[:runtime.Stack(stack, false)])
			}
		}()
		f()
	}()
	<-done
}

// finish runs the cleanups.
func (t *T) finish() {
	for {
		t.mutex.Lock()
		n := len(t.cleanups)
		if n == 0 {
			t.mutex.Unlock()
			return
		}
		last := t.cleanups[n-1]
		t.cleanups = t.cleanups[:n-1]
		t.mutex.Unlock()
		t.perform(last)
	}
}
