package stablehlo

import (
	"runtime"

	"xla_go/gosrc/hlo"
)

// purpose heads the errors of modules that cannot be written.
const purpose = "StableHLO text"

// maxRegions is how often a module's computations may be written into the operations that call them. Each call is a copy,
// so that calls of calls of calls multiply.
const maxRegions = 1 << 20

// malformed is deferred: an instruction that lacks what its opcode has is an error that names it.
func (w *writer) malformed(err *error) {
	switch cause := recover().(type) {
	case nil:
	case runtime.Error:
		*err = hlo.Malformed(purpose, "instruction %s lacks what %s has: %v", w.current.GetName(), w.current.GetOpcode(), cause)
	default:
		panic(cause)
	}
}
