package clienttest

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"xla_go/gosrc/status"
)

func check(t *T, value int) {
	t.Helper()
	if value != 1 {
		t.Errorf("%d is not 1", value)
	}
}

func TestOutcomes(t *testing.T) {
	missing := status.Errorf(status.Unimplemented, "the plugin says no")
	temporary := ""
	for _, test := range []struct {
		name    string
		outcome Outcome
		words   []string
		run     func(t *T)
	}{
		{"nothing found", Pass, nil, func(*T) {}},
		{"one finding", Fail, []string{"recorder_test.go:", "found 7"}, func(t *T) { t.Errorf("found %d", 7) }},
		{"two findings", Fail, []string{"first\n", "second"}, func(t *T) { t.Error("first"); t.Error("second") }},
		{"a helper's finding is its caller's", Fail, []string{"recorder_test.go:33: 2 is not 1"}, func(t *T) { check(t, 2) }},
		{"stopped", Fail, []string{"stop here"}, func(t *T) { t.Fatal("stop", "here"); t.Error("never") }},
		{"stopped without a word", Fail, nil, func(t *T) { t.FailNow() }},
		{"skipped", Skip, []string{"not for you"}, func(t *T) { t.Skip("not for you"); t.Error("never") }},
		{"skipped after a finding", Fail, []string{"before"}, func(t *T) { t.Error("before"); t.Skip("not for you") }},
		{"unsupported", Unsupported, []string{"UNIMPLEMENTED: the plugin says no"}, func(t *T) { _ = must[int](t)(0, missing) }},
		{"an error", Fail, []string{"recorder_test.go:39: broken"}, func(t *T) { _ = must[int](t)(0, errors.New("broken")) }},
		{"panic", Fail, []string{"panic: oops", "recorder_test.go"}, func(*T) { panic("oops") }},
		{"a finding of a cleanup", Fail, []string{"late"}, func(t *T) { t.Cleanup(func() { t.Error("late") }) }},
		{"findings of many", Fail, []string{"again (8 times)"}, func(t *T) {
			var group sync.WaitGroup
			for range 8 {
				group.Go(func() { t.Error("again") })
			}
			group.Wait()
		}},
		{"a directory", Pass, nil, func(t *T) {
			if temporary = t.TempDir(); temporary != t.TempDir() || os.WriteFile(temporary+"/file", nil, 0o600) != nil {
				t.Error("no directory")
			}
		}},
	} {
		result := Case{Name: test.name, run: test.run}.RunOn(&Subject{})
		if result.Case != test.name || result.Outcome != test.outcome {
			t.Errorf("%+v, want %s", result, test.outcome)
		}
		for _, word := range test.words {
			if !strings.Contains(result.Text, word) {
				t.Errorf("%s: %q does not say %q", test.name, result.Text, word)
			}
		}
		if strings.Contains(result.Text, "never") {
			t.Errorf("%s went on: %q", test.name, result.Text)
		}
	}
	if _, err := os.Stat(temporary); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the case's directory is still there: %v", err)
	}
}

func TestLeakIsAFailure(t *testing.T) {
	alive, wait := int64(3), patience // 3 of others, before
	defer func() { patience = wait }()
	patience = 10 * time.Millisecond
	s := &Subject{Alive: func() map[string]int64 { return map[string]int64{"buffers": alive} }}
	if result := (Case{run: func(*T) { alive++ }}).RunOn(s); result.Outcome != Fail || !strings.Contains(result.Text, "1 buffers") {
		t.Errorf("%+v", result)
	}
	if result := (Case{run: func(*T) {}}).RunOn(s); result.Outcome != Pass {
		t.Errorf("another case's leak: %+v", result)
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Cases() {
		if seen[c.Name] {
			t.Errorf("two cases %s", c.Name)
		}
		seen[c.Name] = true
	}
}
