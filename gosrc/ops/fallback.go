package ops

import "xla_go/gosrc/status"

// fallback gives the error of a row that has no program for this call although the call is valid,
// mostly because the result's shape depends on the operands' values. Nothing has been read or
// written then: the adapter runs the operator through torch's CPU fallback, and counts it as such.
func fallback(c *Call, why string) error {
	return &status.Error{
		Code:      status.Unimplemented,
		Message:   c.row.Name + "(): " + why,
		Exception: status.CPUFallback,
	}
}
