package ops

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// Golden lowerings: a row, called on arguments, must give exactly the recorded HLO. Families add
// a test that calls golden with their cases; `go test ./gosrc/ops -run Golden -update` records.

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// golden is one call of a row.
type goldenCase struct {
	// Name heads the case in the file; the row's name if it is empty.
	Name string
	Row  string
	Args []Argument
}

// leaves gives every tensor argument a leaf node and collects writes.
type leaves struct {
	graph  *ir.Graph
	nodes  map[any]*ir.Node
	writes []*ir.Node
}

func (a *leaves) Read(v *View) *ir.Node {
	if n := a.nodes[v.Storage]; n != nil {
		return n
	}
	n := a.graph.Leaf(nil, v.Dtype, v.Sizes)
	a.nodes[v.Storage] = n
	return n
}

func (a *leaves) Write(v *View, value *ir.Node) error {
	a.writes = append(a.writes, value)
	return nil
}

// Arguments of cases.

// tensorOf is a dense tensor with a storage of its own.
func tensorOf(d dtype.Dtype, dims ...int64) Argument {
	return Argument{Tag: TagTensor, Dtype: d, View: View{Storage: new(int64), Sizes: dims, Strides: rowMajor(dims), Dtype: d}}
}

func rowMajor(dims []int64) []int64 {
	strides, step := make([]int64, len(dims)), int64(1)
	for i := len(dims) - 1; i >= 0; i-- {
		strides[i] = step
		step *= max(dims[i], 1)
	}
	return strides
}

func none() Argument { return Argument{} }

func intArg(v int64) Argument { return Argument{Tag: TagInt, Int: v, Float: float64(v)} }

func floatArg(v float64) Argument { return Argument{Tag: TagDouble, Float: v} }

func boolArg(v bool) Argument {
	a := Argument{Tag: TagBool}
	if v {
		a.Int, a.Float = 1, 1
	}
	return a
}

func intsArg(v ...int64) Argument { return Argument{Tag: TagIntList, Ints: v} }

func textArg(v string) Argument { return Argument{Tag: TagString, Text: v} }

func listArg(tensors ...Argument) Argument { return Argument{Tag: TagTensorList, Tensors: tensors} }

// wrapped is a number as Python's operators give it: a 0-dim CPU tensor that wraps it.
func wrapped(v float64) Argument {
	return Argument{Tag: TagCPUScalar, Float: v, Dtype: dtype.F64, Wrapped: true}
}

func wrappedInt(v int64) Argument {
	return Argument{Tag: TagCPUScalar, Int: v, Float: float64(v), Dtype: dtype.S64, Wrapped: true, Integral: true}
}

// runRow calls a row and gives the program of its results and writes.
func runRow(row string, args []Argument) (*ir.Program, error) {
	graph := &ir.Graph{}
	access := &leaves{graph: graph, nodes: map[any]*ir.Node{}}
	call := &Call{Args: args, DefaultDtype: dtype.F32}
	r := rowByName[row]
	if r == nil {
		return nil, status.Errorf(status.NotFound, "no row is named %q", row)
	}
	if err := call.Run(r, graph, access); err != nil {
		return nil, err
	}
	var roots []*ir.Node
	for _, result := range call.Results {
		if result.Node != nil {
			roots = append(roots, result.Node)
		}
	}
	roots = append(roots, access.writes...)
	walk := graph.Walk(roots)
	program, err := ir.DecodeKey(walk.AppendKey(nil, ir.Signature{Outputs: roots}))
	graph.EndCall()
	if err == nil && graph.Live() != 0 {
		err = status.Errorf(status.Internal, "%d nodes outlive the call", graph.Live())
	}
	return program, err
}

// lowerRow gives the HLO text of a row's program.
func lowerRow(row string, args []Argument) (string, error) {
	program, err := runRow(row, args)
	if err != nil {
		return "", err
	}
	module, err := program.Lower("golden", 0)
	if err != nil {
		return "", err
	}
	return hlo.Dump(module.HLO)
}

// golden compares the cases' lowerings with testdata/<family>.hlo.txt. A case whose row refuses
// the arguments has the error's text instead.
func golden(t *testing.T, family string, cases []goldenCase) {
	t.Helper()
	path := filepath.Join("testdata", family+".hlo.txt")
	var got strings.Builder
	for _, c := range cases {
		name := c.Name
		if name == "" {
			name = c.Row
		}
		text, err := lowerRow(c.Row, c.Args)
		if err != nil {
			if status.CodeOf(err) == status.Internal || status.CodeOf(err) == status.NotFound {
				t.Errorf("%s: %v", name, err)
			}
			text = "error: " + status.MessageOf(err) + "\n"
		}
		got.WriteString("# " + name + "\n" + strings.TrimRight(text, "\n") + "\n\n")
	}
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	recorded, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; record it with: go test ./gosrc/ops -run %s -update", err, t.Name())
	}
	compareSections(t, string(recorded), got.String())
}

func compareSections(t *testing.T, want, got string) {
	t.Helper()
	wanted := map[string]string{}
	for _, s := range strings.Split(want, "\n\n# ") {
		name, text, _ := strings.Cut(strings.TrimPrefix(s, "# "), "\n")
		wanted[name] = strings.TrimSpace(text)
	}
	seen := map[string]bool{}
	for _, s := range strings.Split(got, "\n\n# ") {
		name, text, _ := strings.Cut(strings.TrimPrefix(s, "# "), "\n")
		if seen[name] {
			t.Errorf("%s: expected one case of that name, got two", name)
		}
		seen[name] = true
		if wanted[name] != strings.TrimSpace(text) {
			t.Errorf("%s: expected\n%s\ngot\n%s", name, wanted[name], text)
		}
		delete(wanted, name)
	}
	for name := range wanted {
		t.Errorf("%s: expected the case, got none", name)
	}
}
