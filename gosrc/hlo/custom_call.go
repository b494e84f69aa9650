package hlo

import "xla_go/gosrc/shape"

// CallOptions are the rarer attributes of CustomCall.
type CallOptions struct {
	SideEffect bool  // it may not be removed or merged
	APIVersion int64 // XLA's CustomCallApiVersion; 0 is 1 (original), 4 is typed FFI
}

// CustomCall calls a target that the plugin knows. The result may be a tuple.
func (b *Builder) CustomCall(target string, operands []Value, result shape.Shape, backendConfig []byte, o CallOptions) Value {
	if !b.ok(opCustomCall, operands...) {
		return Value{}
	}
	if target == "" {
		return b.fail(opCustomCall, "expected the name of a target, got none")
	}
	n, at := b.begin(opCustomCall, result)
	b.body.text(28, target)
	b.body.bytes(43, backendConfig)
	b.body.flag(65, o.SideEffect)
	b.body.varint(77, max(o.APIVersion, 1))
	return b.end(n, at, operands...)
}
