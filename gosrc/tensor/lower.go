package tensor

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/ops"
	"xla_go/gosrc/shape"
)

// IR operations of views: reading one, writing one, and what both need.
var (
	kindView        = ir.DefineVariable("storage::view", one(lowerView), variableView)
	kindViewUpdate  = ir.DefineVariable("storage::view_update", one(lowerViewUpdate), variableUpdate)
	kindZeros       = define("storage::zeros", func(l *ir.Lowering) hlo.Value { return l.B.Full(l.Dtype, 0, l.Dims...) })
	kindCast        = define("storage::cast", func(l *ir.Lowering) hlo.Value { return ops.Convert(l.B, l.In(0), l.Dtype) })
	kindBroadcast   = define("storage::broadcast", func(l *ir.Lowering) hlo.Value { return l.B.BroadcastTo(l.In(0), l.Dims) })
	kindReinterpret = define("storage::reinterpret", lowerReinterpret)
	kindResize      = define("storage::resize", lowerResize)
	kindConj        = define("storage::conj", lowerConj)
	kindNegate      = define("storage::negate", func(l *ir.Lowering) hlo.Value { return l.B.Unary(hlo.Negate, l.In(0)) })
)

func define(name string, lower func(l *ir.Lowering) hlo.Value) ir.Kind {
	return ir.Define(name, one(lower))
}

func one(lower func(l *ir.Lowering) hlo.Value) func(l *ir.Lowering) []hlo.Value {
	return func(l *ir.Lowering) []hlo.Value { return []hlo.Value{lower(l)} }
}

// How a view whose offset is a parameter is lowered: the same for all offsets of one case.
const (
	caseSlice  = iota // by its plan, of which only the starts depend on the offset
	caseGather        // element by element
)

// variableView lets the view's offset, its first attribute, be a parameter.
func variableView(n *ir.Node) ir.Variables {
	return variableOffset(n.Operands[0], n.Dims, n.Attributes[2:], n.Attributes[0])
}

func variableUpdate(n *ir.Node) ir.Variables {
	rank := int(n.Attributes[1])
	return variableOffset(n.Operands[0], n.Attributes[2:2+rank], n.Attributes[3+rank:], n.Attributes[0])
}

func variableOffset(base *ir.Node, sizes, strides []int64, offset int64) ir.Variables {
	if shape.Product(sizes) == 0 {
		return ir.Variables{}
	}
	switch p := planView(base.NumElements(), sizes, strides, offset); {
	case !p.ok:
		return ir.Variables{Integers: 1, Case: caseGather}
	case p.whole:
		return ir.Variables{}
	}
	return ir.Variables{Integers: 1, Case: caseSlice}
}

// planFor plans a view whose offset may be a parameter. not ok means a gather.
func planFor(l *ir.Lowering, n int64, sizes, strides []int64, offset ir.Number) viewPlan {
	if offset.IsParameter() && l.Case() == caseGather {
		return viewPlan{}
	}
	p := planView(n, sizes, strides, offset.Constant)
	p.whole = p.whole && !offset.IsParameter()
	return p
}

// starts gives the plan's start in each factor: constants, or, where the offset is a parameter, what that comes to.
func (p *viewPlan) starts(b *hlo.Builder, offset ir.Number) []hlo.Value {
	starts := make([]hlo.Value, len(p.start))
	rest := offset.In(b, dtype.S64)
	for i := range starts {
		switch stride := p.strides[i]; {
		case !offset.IsParameter():
			starts[i] = b.ScalarInt(dtype.S64, p.start[i])
		case stride == 1:
			starts[i] = rest
			rest = b.ScalarInt(dtype.S64, 0)
		default:
			by := b.ScalarInt(dtype.S64, stride)
			starts[i], rest = b.Binary(hlo.Divide, rest, by), b.Binary(hlo.Remainder, rest, by)
		}
	}
	return starts
}

// flat gives x as one dimension, padded with zeros to length.
func flat(b *hlo.Builder, x hlo.Value, length int64) hlo.Value {
	n := shape.Product(x.Dims())
	if length == n {
		return b.Reshape(x, []int64{n})
	}
	return b.Pad(b.Reshape(x, []int64{n}), b.Scalar(x.Dtype(), 0), []int64{0}, []int64{length - n}, []int64{0})
}

// shaped gives x in the plan's factors; a reshape alone where nothing is padded.
func (p *viewPlan) shaped(b *hlo.Builder, x hlo.Value) hlo.Value {
	if p.padded == shape.Product(x.Dims()) {
		return b.Reshape(x, p.factors)
	}
	return b.Reshape(flat(b, x, p.padded), p.factors)
}

func lowerView(l *ir.Lowering) hlo.Value {
	b, base := l.B, l.In(0)
	offset, strides := l.Number(), l.Ints()
	n := shape.Product(base.Dims())
	if shape.Product(l.Dims) == 0 {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	p := planFor(l, n, l.Dims, strides, offset)
	if !p.ok {
		picked := b.Gather(flat(b, base, n), positions(b, l.Dims, strides, offset, n), hlo.GatherDims{
			CollapsedSliceDims: []int64{0}, StartIndexMap: []int64{0}, IndexVectorDim: 1, SliceSizes: []int64{1},
		})
		return b.Reshape(picked, l.Dims)
	}
	v := p.shaped(b, base)
	switch {
	case offset.IsParameter():
		v = b.DynamicSlice(v, p.starts(b, offset), p.size)
	case !p.whole:
		limit := make([]int64, len(p.start))
		for i := range limit {
			limit[i] = p.start[i] + p.size[i]
		}
		v = b.Slice(v, p.start, limit, nil)
	}
	v = b.Transpose(b.Reshape(v, p.size[:len(p.kept)]), p.permutation)
	if len(p.kept) == len(l.Dims) {
		return v
	}
	for i, size := range l.Dims {
		if size > 1 && strides[i] == 0 {
			return b.Broadcast(v, l.Dims, p.kept)
		}
	}
	return b.Reshape(v, l.Dims)
}

func lowerViewUpdate(l *ir.Lowering) hlo.Value {
	b, base, value := l.B, l.In(0), l.In(1)
	offset, sizes, strides := l.Number(), l.Ints(), l.Ints()
	n := shape.Product(l.Dims)
	p := planFor(l, n, sizes, strides, offset)
	if !p.ok {
		count := shape.Product(sizes)
		updated := b.Scatter([]hlo.Value{flat(b, base, n)}, positions(b, sizes, strides, offset, n), []hlo.Value{b.Reshape(value, []int64{count})}, hlo.ScatterDims{
			InsertedWindowDims: []int64{0}, ScatterDimsToOperandDims: []int64{0}, IndexVectorDim: 1,
		}, replace(b, l.Dtype))
		return b.Reshape(updated[0], l.Dims)
	}
	inner := make([]int64, len(p.kept))
	inverse := make([]int, len(p.kept))
	for i, dim := range p.kept {
		inner[i] = sizes[dim]
		inverse[p.permutation[i]] = i
	}
	v := b.Reshape(b.Transpose(b.Reshape(value, inner), inverse), p.size)
	if p.whole {
		return b.Reshape(v, l.Dims)
	}
	v = b.DynamicUpdateSlice(p.shaped(b, base), v, p.starts(b, offset))
	if p.padded != n {
		v = b.Slice(b.Reshape(v, []int64{p.padded}), []int64{0}, []int64{n}, nil)
	}
	return b.Reshape(v, l.Dims)
}

// positions gives the flat position of each element of a view, as [count, 1] indices.
func positions(b *hlo.Builder, sizes, strides []int64, offset ir.Number, n int64) hlo.Value {
	d := dtype.S32
	if n > 1<<31-1 {
		d = dtype.S64
	}
	index := b.Broadcast(offset.In(b, d), sizes, nil)
	for i := range sizes {
		if sizes[i] != 1 && strides[i] != 0 {
			step := b.Binary(hlo.Multiply, b.Iota(d, sizes, i), b.FullInt(d, strides[i], sizes...))
			index = b.Binary(hlo.Add, index, step)
		}
	}
	return b.Reshape(index, []int64{shape.Product(sizes), 1})
}

// replace is the scatter computation that takes the update.
func replace(b *hlo.Builder, d dtype.Dtype) *hlo.Computation {
	return b.Computation("replace_"+d.String(), func(sub *hlo.Builder) {
		sub.Parameter(scalarShape(d), "old")
		sub.Return(sub.Parameter(scalarShape(d), "new"))
	})
}

func lowerConj(l *ir.Lowering) hlo.Value {
	x := l.In(0)
	if !x.Dtype().IsComplex() {
		return x
	}
	return l.B.Binary(hlo.Complex, l.B.Unary(hlo.Real, x), l.B.Unary(hlo.Negate, l.B.Unary(hlo.Imag, x)))
}

func lowerResize(l *ir.Lowering) hlo.Value {
	b := l.B
	n := shape.Product(l.In(0).Dims())
	if l.Dims[0] >= n {
		return flat(b, l.In(0), l.Dims[0])
	}
	return b.Slice(flat(b, l.In(0), n), []int64{0}, l.Dims, nil)
}

// lowerReinterpret reads the bytes of a value as elements of another type. bool and complex types
// are no operands of a bitcast in XLA and go through u8 and their parts.
func lowerReinterpret(l *ir.Lowering) hlo.Value {
	b, x := l.B, l.In(0)
	x = b.Reshape(x, []int64{shape.Product(x.Dims())})
	switch from := x.Dtype(); {
	case from == dtype.Bool:
		x = b.Convert(x, dtype.U8)
	case from.IsComplex():
		re, im := b.Unary(hlo.Real, x), b.Unary(hlo.Imag, x)
		n := x.Dims()[0]
		pair := b.Concatenate([]hlo.Value{b.Reshape(re, []int64{n, 1}), b.Reshape(im, []int64{n, 1})}, 1)
		x = b.Reshape(pair, []int64{2 * n})
	}
	to := l.Dtype
	switch {
	case to == dtype.Bool:
		x = ops.Convert(b, bitcast(b, x, dtype.U8), dtype.Bool)
	case to.IsComplex():
		x = bitcast(b, x, to.Real())
		n := x.Dims()[0] / 2
		pair := b.Reshape(x, []int64{n, 2})
		part := func(i int64) hlo.Value {
			return b.Reshape(b.Slice(pair, []int64{0, i}, []int64{n, i + 1}, nil), []int64{n})
		}
		x = b.Binary(hlo.Complex, part(0), part(1))
	default:
		x = bitcast(b, x, to)
	}
	return b.Reshape(x, l.Dims)
}

// bitcast reads a flat array's bytes as elements of d; lengths divide.
func bitcast(b *hlo.Builder, x hlo.Value, d dtype.Dtype) hlo.Value {
	from, to := x.Dtype().Size(), d.Size()
	n := x.Dims()[0]
	switch {
	case from < to:
		ratio := to / from
		return b.BitcastConvert(b.Reshape(x, []int64{n / ratio, ratio}), d)
	case from > to:
		return b.Reshape(b.BitcastConvert(x, d), []int64{n * from / to})
	}
	return b.BitcastConvert(x, d)
}

func scalarShape(d dtype.Dtype) shape.Shape { return shape.Make(d) }
