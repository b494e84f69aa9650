package ops

import (
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
)

// kindMakeComplex joins two real scalars into a complex one.
var kindMakeComplex = defineKind("xla_go::make_complex", func(l *ir.Lowering) hlo.Value {
	return l.B.Binary(hlo.Complex, l.In(0), l.In(1))
})
