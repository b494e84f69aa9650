package ops

import "xla_go/gosrc/status"

// ErrFallback is the cause (errors.Is) of the error of a row that cannot make a program for this
// call although the call is valid, mostly because the result's shape depends on the operands'
// values. Nothing has been read or written then: the adapter runs the operator through torch's
// CPU fallback, and counts it as such.
var ErrFallback = status.Errorf(status.Unimplemented, "the operator has no program for these arguments")

// fallback gives the error of a row that leaves this call to the CPU fallback.
func fallback(c *Call, why string) error {
	return &status.Error{
		Code:      status.Unimplemented,
		Message:   c.row.Name + "(): " + why,
		Cause:     ErrFallback,
		Exception: status.CPUFallback,
	}
}
