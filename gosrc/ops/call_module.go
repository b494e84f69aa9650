package ops

import (
	"encoding/binary"
	"slices"
	"sync"

	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Calls of HLO modules that other programs have lowered (`xla_go.hlo_module`). The schema is ours (torch_adapter/collective.cpp). The
// module itself is among the node's attributes, so that a program's key has all of it.

func init() {
	register(&Row{Name: "xla_go::call_module", Meta: metaCallModule, LowerMany: lowerCallModule})
}

// Module is an HLO module that calls may name by a number.
type Module struct {
	Parameters, Results []shape.Shape // arrays; of tuples their elements, in order
	attributes          []int64       // its bytes, as readBytes reads them
}

var modules = struct {
	sync.Mutex
	last   int64
	opened map[int64]*Module
}{opened: map[int64]*Module{}}

// OpenModule reads a serialized HloModuleProto and gives it a number, for calls until CloseModule. See hlo.ParseForeign for the errors.
func OpenModule(serialized []byte) (int64, *Module, error) {
	f, err := hlo.ParseForeign(serialized)
	if err != nil {
		return 0, nil, err
	}
	m := &Module{Parameters: f.Parameters(), Results: f.Results()}
	m.attributes = append(m.attributes, int64(len(serialized)))
	for chunk := range slices.Chunk(serialized, 8) {
		var word [8]byte
		copy(word[:], chunk)
		m.attributes = append(m.attributes, int64(binary.LittleEndian.Uint64(word[:])))
	}
	modules.Lock()
	defer modules.Unlock()
	modules.last++
	modules.opened[modules.last] = m
	return modules.last, m, nil
}

// CloseModule forgets a module; calls that were traced stay as they are. Idempotent.
func CloseModule(number int64) {
	modules.Lock()
	defer modules.Unlock()
	delete(modules.opened, number)
}

// metaCallModule: (inputs, results, module).
func metaCallModule(c *Call) error {
	modules.Lock()
	m := modules.opened[c.Int(2, 0)]
	modules.Unlock()
	if m == nil {
		return status.Torchf(status.ValueError, "%s(): expected the number of an open module, got %d", c.row.Name, c.Int(2, 0))
	}
	inputs, results := c.list(0), c.Args[1].Tensors
	if len(inputs) != len(m.Parameters) || len(results) != len(m.Results) {
		return status.Torchf(status.ValueError, "%s(): expected %d tensors for a module with %d results, got %d and %d", c.row.Name, len(m.Parameters), len(m.Results), len(inputs), len(results))
	}
	for k, n := range inputs {
		if got := (shape.Shape{Dtype: n.Dtype, Dims: n.Dims}); !got.Equal(m.Parameters[k]) {
			return status.Torchf(status.ValueError, "%s(): expected %v as input %d of the module, got %v", c.row.Name, m.Parameters[k], k, got)
		}
	}
	c.Attr(m.attributes...)
	c.Operand(inputs...)
	many := c.Many()
	for k, s := range m.Results {
		if err := c.WriteTo(&results[k], c.Element(many, k, s.Dtype, s.Dims)); err != nil {
			return err
		}
	}
	return nil
}

func lowerCallModule(l *ir.Lowering) []hlo.Value {
	f, err := hlo.ParseForeign(readBytes(l))
	if err != nil {
		panic(err) // OpenModule has read it
	}
	return l.B.CallForeign(f, operandsOf(l))
}
