package ops

import (
	"fmt"

	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// What torch's CPU kernels say of positions and classes that are out of range, which a program finds out when it runs.

// outOfBounds is the refusal of a position along a dimension.
func outOfBounds(exception status.Exception, dim int, size int64) ir.Refusal {
	return ir.Refusal{Exception: exception, Text: fmt.Sprintf("index %s is out of bounds for dimension %d with size %d", ir.CheckedValue, dim, size)}
}

// outOfRangeInSelf is that of the kernels which do not name the position.
var outOfRangeInSelf = ir.Refusal{Exception: status.IndexError, Text: "index out of range in self"}

// triedToAccess is that of take and put_, whose positions count all elements.
func triedToAccess(elements int64) ir.Refusal {
	return ir.Refusal{Exception: status.IndexError, Text: fmt.Sprintf("out of range: tried to access index %s on a tensor of %d elements.", ir.CheckedValue, elements)}
}

// targetOutOfBounds is that of a negative log likelihood's class.
var targetOutOfBounds = ir.Refusal{Exception: status.IndexError, Text: "Target " + ir.CheckedValue + " is out of bounds."}

// checkWrapped checks positions that count from the end where they are negative.
func checkWrapped(l *ir.Lowering, operand int, size int64, refusal ir.Refusal) {
	l.CheckRange(operand, -size, size, refusal)
}
