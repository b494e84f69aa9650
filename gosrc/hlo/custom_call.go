package hlo

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
)

// CallOptions are the rarer attributes of CustomCall.
type CallOptions struct {
	SideEffect bool  // it may not be removed or merged
	APIVersion int64 // XLA's CustomCallApiVersion; 0 is 1 (original), 4 is typed FFI
	// Attributes are XLA's frontend attributes, which passes of the compiler read; their names ascend.
	Attributes []FrontendAttribute
}

// FrontendAttribute is a name and what it is for one instruction.
type FrontendAttribute struct{ Name, Value string }

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
	if len(o.Attributes) > 0 {
		attributes := b.body.open(68)
		for _, one := range o.Attributes {
			entry := b.body.open(1)
			b.body.text(1, one.Name)
			b.body.text(2, one.Value)
			b.body.close(entry)
		}
		b.body.close(attributes)
	}
	b.body.varint(77, max(o.APIVersion, 1))
	return b.end(n, at, operands...)
}

// CustomCalls is CustomCall with its results apart; of several the call itself gives a tuple.
func (b *Builder) CustomCalls(target string, operands []Value, results []shape.Shape, backendConfig []byte, o CallOptions) []Value {
	result := shape.MakeTuple(results...)
	if len(results) == 1 {
		result = results[0]
	}
	return b.elements(b.CustomCall(target, operands, result, backendConfig, o), result.Dtype == dtype.Tuple)
}
