// Package status is the error vocabulary of the whole runtime: one canonical code and one
// message per error, kept from the PJRT plugin up to the Python exception class.
//
// The codes and their numbers are the canonical ones that PJRT_Error_GetCode returns.
package status

import (
	"errors"
	"fmt"
)

// Code is a canonical status code.
type Code int32

// The canonical codes, with the numbers that the PJRT C API uses.
const (
	OK                 Code = 0
	Cancelled          Code = 1
	Unknown            Code = 2
	InvalidArgument    Code = 3
	DeadlineExceeded   Code = 4
	NotFound           Code = 5
	AlreadyExists      Code = 6
	PermissionDenied   Code = 7
	ResourceExhausted  Code = 8
	FailedPrecondition Code = 9
	Aborted            Code = 10
	OutOfRange         Code = 11
	Unimplemented      Code = 12
	Internal           Code = 13
	Unavailable        Code = 14
	DataLoss           Code = 15
	Unauthenticated    Code = 16
)

var names = [...]string{
	OK: "OK", Cancelled: "CANCELLED", Unknown: "UNKNOWN", InvalidArgument: "INVALID_ARGUMENT",
	DeadlineExceeded: "DEADLINE_EXCEEDED", NotFound: "NOT_FOUND", AlreadyExists: "ALREADY_EXISTS",
	PermissionDenied: "PERMISSION_DENIED", ResourceExhausted: "RESOURCE_EXHAUSTED",
	FailedPrecondition: "FAILED_PRECONDITION", Aborted: "ABORTED", OutOfRange: "OUT_OF_RANGE",
	Unimplemented: "UNIMPLEMENTED", Internal: "INTERNAL", Unavailable: "UNAVAILABLE",
	DataLoss: "DATA_LOSS", Unauthenticated: "UNAUTHENTICATED",
}

// String gives the canonical upper-case name, for example INVALID_ARGUMENT.
func (c Code) String() string {
	if c < 0 || int(c) >= len(names) {
		return fmt.Sprintf("CODE_%d", int32(c))
	}
	return names[c]
}

// Error is an error with a canonical code.
type Error struct {
	Code      Code
	Message   string
	Cause     error
	Exception Exception // the Python class to raise, Default for the one of Code
}

// Error gives "CODE: message", the form that the Python layer parses back into a class.
func (e *Error) Error() string { return e.Code.String() + ": " + e.Message }

// Unwrap gives the cause, if there is one.
func (e *Error) Unwrap() error { return e.Cause }

// Errorf makes an Error; an error among the arguments that carries a code does not change code.
func Errorf(code Code, format string, args ...any) *Error {
	e := &Error{Code: code, Message: fmt.Sprintf(format, args...)}
	for _, a := range args {
		if cause, ok := a.(error); ok {
			e.Cause = cause
		}
	}
	return e
}

// CodeOf gives the code that err carries: OK for nil, Unknown where it carries none.
func CodeOf(err error) Code {
	if err == nil {
		return OK
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Unknown
}

// MessageOf gives err's text without the code in front.
func MessageOf(err error) string {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) && e == err {
		return e.Message
	}
	return err.Error()
}

// Annotate puts a prefix in front of err's message and keeps its code.
func Annotate(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &Error{Code: CodeOf(err), Message: fmt.Sprintf(format, args...) + ": " + MessageOf(err), Cause: err, Exception: ExceptionOf(err)}
}

// Exception is the Python class that an error raises where torch's own wording and class are
// expected; Default leaves the choice to the code.
type Exception int32

// Python exception classes, numbered as python_kind in xla_go_dispatch.h.
const (
	Default             Exception = 0
	IndexError          Exception = 1
	TypeError           Exception = 2
	ValueError          Exception = 3
	NotImplementedError Exception = 4
	RuntimeError        Exception = 5
	// CPUFallback raises nothing: the operator cannot express this call and asks for torch's CPU fallback.
	CPUFallback Exception = 6
	LinAlgError Exception = 7 // torch.linalg.LinAlgError
)

// Torchf makes an error with torch's wording that raises the given Python class.
func Torchf(exception Exception, format string, args ...any) *Error {
	code := InvalidArgument
	switch exception {
	case IndexError:
		code = OutOfRange
	case NotImplementedError:
		code = Unimplemented
	}
	return &Error{Code: code, Exception: exception, Message: fmt.Sprintf(format, args...)}
}

// ExceptionOf gives the Python class that err asks for.
func ExceptionOf(err error) Exception {
	var e *Error
	if errors.As(err, &e) {
		return e.Exception
	}
	return Default
}
