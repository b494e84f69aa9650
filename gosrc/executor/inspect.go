package executor

import (
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/stablehlo"
	"xla_go/gosrc/status"
)

// Pending gives the values of the device that are not computed or queued yet, oldest first. Under Core.Mu.
func (d *Device) Pending() []*ir.Node {
	var values []*ir.Node
	for r := d.head; r != nil; r = r.next {
		values = append(values, r.value)
	}
	return values
}

// Key gives the canonical key of the program that would compute values, and the stacks of its nodes, nil where none
// were recorded. Under Core.Mu, where programs are partitioned with all shardings known (LockResolved).
func (d *Device) Key(values []*ir.Node) ([]byte, []ir.Stack) {
	c := d.core
	signature := ir.Signature{Outputs: values, Device: d.Index, Precision: c.Precision()}
	if p := d.partitioning.Load(); p != nil {
		wanted := map[*ir.Node]*hlo.Sharding{}
		for r := d.head; r != nil; r = r.next {
			wanted[r.value] = r.wanted()
		}
		signature.Partitions = p.count
		for _, v := range values {
			signature.Shardings = append(signature.Shardings, wanted[v])
		}
	}
	walk := c.Graph.Walk(values)
	return walk.AppendKey(nil, signature), ir.Stacks(walk.Order, nil)
}

// Parameters gives the values in device memory that the program of values takes, in the order of its parameters. Under Core.Mu.
func (d *Device) Parameters(values []*ir.Node) []*ir.Node {
	return slices.Clone(d.core.Graph.Walk(values).Parameters)
}

// Scalars gives the scalars that the program of values takes, packed as its last parameter. Under Core.Mu.
func (d *Device) Scalars(values []*ir.Node) []byte {
	return d.core.Graph.Walk(values).AppendScalars(nil, nil)
}

// Module lowers the program of a key to a module of that name. Without Core.Mu.
func (c *Core) Module(key []byte, name string) (*ir.Module, error) {
	program, err := ir.DecodeKey(key)
	if err != nil {
		return nil, err
	}
	program.Unchecked = !c.options.Checks
	return program.Lower(name, c.options.TupleThreshold)
}

// Placement says how a value of a partitioned program lies over the devices.
type Placement struct {
	Node     int     `json:"node"`     // its number, as Program.Text writes it
	Operator string  `json:"operator"` // that computes it, or "parameter"
	Type     string  `json:"type"`     // element type and dimensions, as HLO writes them
	Shape    []int64 `json:"shape"`
	Sharding string  `json:"sharding"` // as HLO's text writes it
	Line     string  `json:"line"`     // of the user's code, "" where it was not recorded
}

// Placements gives how the parameters and the values of a partitioned program lie over the devices, by a compile of the
// program in which each value is a result too. FailedPrecondition for a program of one device. BLOCKING; without Core.Mu.
func (c *Core) Placements(key []byte, stacks []ir.Stack) ([]Placement, error) {
	program, err := ir.DecodeKey(key)
	if err != nil {
		return nil, err
	}
	if program.Partitions == 0 {
		return nil, status.Errorf(status.FailedPrecondition, "expected a program that is partitioned: call xla_go.runtime.use_spmd() first")
	}
	program.SetStacks(stacks)
	own := len(program.Outputs)
	var placements []Placement
	program.Outputs, program.Shardings = slices.Clone(program.Outputs), slices.Clone(program.Shardings)
	for i := range program.Nodes {
		n := &program.Nodes[i]
		if n.Dtype == dtype.Tuple || n.Kind == ir.KindScalar {
			continue
		}
		of := shape.Shape{Dtype: n.Dtype, Dims: n.Dims}
		placements = append(placements, Placement{Node: i, Operator: n.Kind.String(), Type: of.String(), Shape: append([]int64{}, n.Dims...), Line: n.Stack.Line()})
		program.Outputs, program.Shardings = append(program.Outputs, i), append(program.Shardings, nil)
	}
	if len(placements) == 0 {
		return []Placement{}, nil
	}
	computation, checks, _, err := c.build(program, c.devices[0], nil, false)
	if err != nil {
		return nil, err
	}
	defer computation.Close()
	shardings, err := outputShardings(computation, len(program.Outputs), checks)
	if err != nil {
		return nil, err
	}
	for i, s := range shardings[own:] {
		placements[i].Sharding = s.String()
	}
	return placements, nil
}

// CompiledKey gives the key of the program of a compile, by its number; NotFound for one that is not among the newest. Not
// blocking.
func (c *Core) CompiledKey(number int64) ([]byte, error) {
	l := &c.compiles
	l.mu.Lock()
	defer l.mu.Unlock()
	if back := l.started.Load() - number; back >= 0 && back < int64(len(l.recent)) {
		return l.recent[back], nil
	}
	return nil, status.Errorf(status.NotFound, "expected the number of one of the newest %d compiles, got %d of %d", len(l.recent), number, l.started.Load())
}

// Describe writes the program of a key as "ir" (a node a line), "hlo" (the text of the module that is compiled),
// "stablehlo" (MLIR that is the same program), "readable stablehlo" (in the form for people) or "dot" (Graphviz's language), with the lines that made its nodes where
// stacks has them. Unimplemented where StableHLO has no operation for an instruction. Without Core.Mu.
func (c *Core) Describe(key []byte, stacks []ir.Stack, format string) (string, error) {
	program, err := ir.DecodeKey(key)
	if err != nil {
		return "", err
	}
	program.SetStacks(stacks)
	switch format {
	case "ir":
		return program.Text(), nil
	case "dot":
		return program.DOT(), nil
	case "hlo", "stablehlo", "readable stablehlo":
		program.Unchecked = !c.options.Checks
		if format != "hlo" { // which is what is compiled
			program.Marks = hlo.PartlyMarked
		}
		module, err := program.Lower("step", c.options.TupleThreshold)
		if err != nil {
			return "", err
		}
		switch format {
		case "stablehlo":
			return stablehlo.Text(module.HLO)
		case "readable stablehlo":
			return stablehlo.Readable(module.HLO)
		}
		return hlo.Dump(module.HLO)
	}
	return "", status.Errorf(status.InvalidArgument, "Describe(): expected the format ir, hlo, stablehlo, readable stablehlo or dot, got %q", format)
}
