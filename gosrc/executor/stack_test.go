package executor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"xla_go/gosrc/client/fakeclient"
	"xla_go/gosrc/executor"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// from lets a call's nodes come from a line of a function.
func (f *fixture) from(line int, function string, call func()) {
	stack := ir.AddStack([]hlo.Frame{{File: "net.py", Line: line, Function: function}, {File: "train.py", Line: 1, Function: "<module>"}})
	set := func(s ir.Stack) {
		f.core.Mu.Lock()
		defer f.core.Mu.Unlock()
		f.core.Graph.Stack = s
	}
	set(stack)
	defer set(0)
	call()
}

func (f *fixture) wantText(what string, err error, parts ...string) {
	f.Helper()
	if err == nil {
		f.Errorf("%s: no error", what)
		return
	}
	for _, part := range parts {
		if n := strings.Count(err.Error(), part); n != 1 {
			f.Errorf("%s: %q comes %d times in %v", what, part, n, err)
		}
	}
}

// The error of a run tells the operator that made the value and the lines that called it; what was computed from it
// tells the same, not its own.
func TestErrorOfARunTellsOperatorAndLines(t *testing.T) {
	for name, operation := range map[string]fakeclient.Operation{"in the call": fakeclient.Execute, "later": fakeclient.Result} {
		t.Run(name, func(t *testing.T) {
			f := startFake(t)
			x, y, z, after := f.root(1), f.empty(), f.empty(), f.empty()
			f.client.FailAt(operation, 1, failure)
			f.client.FailAt(operation, 2, failure) // of the outputs run apart the first
			f.from(7, "forward", func() { f.addScalar(y, x, 1) })
			f.from(8, "forward", func() { f.addScalar(z, x, 1) })
			f.mustCut()
			f.device.WaitIdle()
			f.from(9, "loss", func() { f.addScalar(after, y, 1) })
			f.mustCut()
			_, err := f.data(y)
			f.wantText("the output", err, "in test::add, called at (most recent call last):", "\n  File \"train.py\", line 1, in <module>\n  File \"net.py\", line 7, in forward")
			f.wantCode("the output", err, status.DataLoss)
			_, err = f.data(after)
			f.wantText("what is computed from it", err, "line 7, in forward")
			f.expect(z, 2)
			for range 2 { // of the step that could not be launched for want of its argument
				if err := f.cut(); err != nil {
					f.wantCode("a later cut", err, status.DataLoss)
				}
			}
		})
	}
}

// An operator whose lowering fails is named, and a compiler's error names that of the instruction it quotes.
func TestErrorOfACompileTellsOperatorAndLines(t *testing.T) {
	f := startFake(t)
	x, y, z := f.root(1), f.empty(), f.empty()
	f.from(3, "forward", func() { f.apply(y, kindBroken, []int64{1}, x) })
	f.mustCut()
	_, err := f.data(y)
	f.wantText("a lowering", err, "this lowering is broken", "in test::broken, called at", "line 3, in forward")

	f.from(4, "forward", func() { f.addScalar(z, x, 1) })
	f.from(5, "loss", func() { f.addScalar(y, z, 1) })
	f.core.Mu.Lock()
	key, stacks := f.device.Key(f.device.Pending())
	f.core.Mu.Unlock()
	text, err := f.core.Describe(key, stacks, "hlo")
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`%add\.\d+`).FindString(text)
	f.client.FailAt(fakeclient.Compile, 1, status.Errorf(status.InvalidArgument, "cannot compile %s of version-a.7", name))
	f.mustCut()
	_, err = f.data(y)
	f.wantText("a quoted instruction", err, "in test::add, called at", "line 4, in forward")
}

// Where a program was written is not in its key: another line runs the same program.
func TestStacksAreNotInTheKey(t *testing.T) {
	f := startFake(t)
	x := f.root(1, 2, 3)
	for line := 1; line <= 3; line++ {
		f.from(line, "forward", func() { f.addScalar(x, x, 1) })
		f.mustCut()
		f.device.WaitIdle()
	}
	f.addScalar(x, x, 1)
	f.mustCut()
	f.expect(x, 5, 6, 7)
	if n := f.client.Count(fakeclient.Compile); n != 1 {
		t.Errorf("%d compiles, want 1", n)
	}
}

// The analysis tells of compiles and runs with their cause and the frames that Python reports.
func TestAnalysisTellsOfCompilesAndRuns(t *testing.T) {
	for level, want := range map[int][2]int{0: {0, 0}, 1: {1, 0}, 2: {1, 2}} {
		t.Run(fmt.Sprint(level), func(t *testing.T) { analyse(t, level, want) })
	}
}

// startAnalysed is startFake with a core that tells of each compile and run in a file.
func startAnalysed(t *testing.T, level int) (f faked, file string) {
	options := executor.DefaultOptions()
	file = filepath.Join(t.TempDir(), "analysis")
	options.Analysis = executor.AnalysisOptions{Level: level, File: file, Frames: 1}
	f = startFake(t)
	*f.fixture = *f.another(options)
	return f, file
}

func analyse(t *testing.T, level int, want [2]int) {
	f, file := startAnalysed(t, level)
	x := f.root(1, 2, 3, 4)
	for range 2 {
		f.addScalar(x, x, 1)
		f.mustCut()
		f.core.LocateCompiles("net.py:7 in step", []hlo.Frame{{File: "net.py", Line: 7, Function: "step"}, {File: "train.py", Line: 1, Function: "<module>"}})
		f.device.WaitIdle()
	}
	f.core.Compiles() // their reports have been written
	var text string
	if level > 0 {
		bytes, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text = string(bytes)
	} else if _, err := os.Stat(file); err == nil {
		t.Error("a file was written unasked")
	}
	if n := strings.Count(text, "\nCompilation Analysis:   test\n"); n != want[0] {
		t.Errorf("level %d: %d compiles are told, want %d:\n%s", level, n, want[0], text)
	}
	if n := strings.Count(text, "\nExecution Analysis:   step (net.py:7)\nExecution Analysis:   and 1 more"); n != want[1] {
		t.Errorf("level %d: %d runs are told, want %d:\n%s", level, n, want[1], text)
	}
	for _, part := range []string{"Compilation Analysis:   Nodes: 3\n", "Compilation Analysis:   Number of Graph Inputs: 2\n", "Compilation Analysis:   Number of Graph Outputs: 1\n", "Post Compilation Analysis: Graph input size: ", "Post Compilation Analysis: -------------------- compile 1, graph "} {
		if level > 0 && !strings.Contains(text, part) {
			t.Errorf("level %d: no %q in\n%s", level, part, text)
		}
	}
	f.expect(x, 3, 4, 5, 6)
	f.device.WaitIdle()
}

// A run is told with its place also where its caller waits for it longer than others are waited for.
func TestAnalysisOfARunInALongCall(t *testing.T) {
	f, file := startAnalysed(t, 2)
	x := f.root(1)
	f.addScalar(x, x, 1)
	end := f.core.BeginCall()
	f.mustCut()
	f.expect(x, 2)
	f.device.WaitIdle()
	time.Sleep(1500 * time.Millisecond)
	f.core.LocateCompiles("net.py:7 in step", []hlo.Frame{{File: "net.py", Line: 7, Function: "step"}})
	end()
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "Execution Analysis:   step (net.py:7)\n") || strings.Contains(string(text), "no Python code") {
		t.Fatalf("%v:\n%s", err, text)
	}
}

// A run that no Python code has asked for is told without frames, after a while.
func TestAnalysisOfARunWithoutPython(t *testing.T) {
	f, file := startAnalysed(t, 2)
	x := f.root(1)
	f.addScalar(x, x, 1)
	f.mustCut()
	f.expect(x, 2)
	f.device.WaitIdle()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		text, _ := os.ReadFile(file)
		if strings.Contains(string(text), "Execution Analysis:   none: no Python code asked for it\n") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the run was not told:\n%s", text)
		}
	}
}
