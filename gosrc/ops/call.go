package ops

import (
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// Tag says what an argument is; the numbers are those of xla_go_dispatch.h.
type Tag int32

// Argument tags.
const (
	TagNone       Tag = 0
	TagTensor     Tag = 1
	TagInt        Tag = 2
	TagDouble     Tag = 3
	TagBool       Tag = 4
	TagComplex    Tag = 5
	TagIntList    Tag = 6
	TagDoubleList Tag = 7
	TagBoolList   Tag = 8
	TagTensorList Tag = 9
	TagCPUScalar  Tag = 10
	TagString     Tag = 11
	TagDevice     Tag = 12
	TagGenerator  Tag = 13
	TagScalarList Tag = 14
)

// View is a strided window on a storage, as torch gave it; Storage is the tensor package's.
type View struct {
	Storage any
	Sizes   []int64 // borrowed for the length of the call
	Strides []int64
	Offset  int64
	Dtype   dtype.Dtype
	Conj    bool
	Neg     bool
}

// Generator is the state of a random generator; a random row reads both and advances Offset.
type Generator struct {
	Seed   uint64
	Offset *uint64
}

// Argument is one argument of a call, in schema order.
type Argument struct {
	Tag       Tag
	Int       int64 // INT, BOOL, integral CPU_SCALAR, DEVICE
	Float     float64
	Imag      float64
	Ints      []int64
	Floats    []float64
	Text      string
	Dtype     dtype.Dtype // of a tensor or CPU scalar
	Wrapped   bool        // a tensor that wraps a Python number
	Integral  bool        // CPU_SCALAR, SCALAR_LIST: the value is in Int, Ints
	View      View
	Tensors   []Argument // TENSOR_LIST; a missing tensor has TagNone
	Generator Generator

	node *ir.Node
}

// TensorAccess reads and writes tensors for a call; the tensor package implements it.
type TensorAccess interface {
	// Read gives the value of a view as an IR node, row-major and dense.
	Read(v *View) *ir.Node
	// Write puts a value of the view's sizes into it, converting the dtype.
	Write(v *View, value *ir.Node) error
}

// Result is one declared result; an undefined tensor has no Node.
type Result struct {
	Node *ir.Node
}

// Call is one operator call as rows see it. It is reused: nothing of it outlives the call.
type Call struct {
	Args []Argument
	// DefaultDtype is torch.get_default_dtype().
	DefaultDtype dtype.Dtype
	InPlace      bool // result 0 goes into argument 0
	Results      []Result

	row      *Row
	graph    *ir.Graph
	access   TensorAccess
	operands []*ir.Node
	attrs    []int64
	dims     []int64 // scratch of shape inference
}

// Run runs row number on the call's arguments. Results are temporaries of graph: the caller
// stores them, then ends the call on the graph.
func (c *Call) Run(row *Row, graph *ir.Graph, access TensorAccess) error {
	c.row, c.graph, c.access = row, graph, access
	c.Results, c.operands, c.attrs = c.Results[:0], c.operands[:0], c.attrs[:0]
	for i := range c.Args {
		c.Args[i].node = nil
	}
	row.calls().Add(1)
	return row.Meta(c)
}

// Graph gives the graph, for rows that build several nodes.
func (c *Call) Graph() *ir.Graph { return c.graph }

// ---- looking at arguments ----

// IsNone is true for None and for an argument that the schema of this release does not have.
func (c *Call) IsNone(i int) bool { return i >= len(c.Args) || c.Args[i].Tag == TagNone }

// IsTensor is true for a tensor on the device.
func (c *Call) IsTensor(i int) bool { return i < len(c.Args) && c.Args[i].Tag == TagTensor }

// Int gives an int, bool, dtype, layout or device argument, or def for None.
func (c *Call) Int(i int, def int64) int64 {
	if c.IsNone(i) {
		return def
	}
	return c.Args[i].Int
}

// Bool gives a bool argument, false for None.
func (c *Call) Bool(i int) bool { return !c.IsNone(i) && c.Args[i].Int != 0 }

// Float gives a float or Scalar argument as float64, or def for None.
func (c *Call) Float(i int, def float64) float64 {
	if c.IsNone(i) {
		return def
	}
	if a := &c.Args[i]; a.IsIntegralScalar() {
		return float64(a.Int)
	}
	return c.Args[i].Float
}

// Ints gives an int list, nil for None.
func (c *Call) Ints(i int) []int64 {
	if c.IsNone(i) {
		return nil
	}
	return c.Args[i].Ints
}

// Text gives a string argument.
func (c *Call) Text(i int) string {
	if c.IsNone(i) {
		return ""
	}
	return c.Args[i].Text
}

// DtypeArg gives a dtype argument, or def for None.
func (c *Call) DtypeArg(i int, def dtype.Dtype) (dtype.Dtype, error) {
	if c.IsNone(i) {
		return def, nil
	}
	d := dtype.FromTorch(int32(c.Args[i].Int))
	if d == dtype.Invalid {
		return d, status.Torchf(status.RuntimeError, "%s(): expected a dtype that XLA has, got ScalarType %d", c.row.Name, c.Args[i].Int)
	}
	return d, nil
}

// Dims gives the sizes of a tensor argument; none for a CPU scalar or number.
func (c *Call) Dims(i int) []int64 { return c.Args[i].View.Sizes }

// Rank gives the number of dimensions of a tensor argument.
func (c *Call) Rank(i int) int { return len(c.Args[i].View.Sizes) }

// Dtype gives the element type of a tensor or CPU scalar argument.
func (c *Call) Dtype(i int) dtype.Dtype { return c.Args[i].Dtype }

// IsScalarKind is true for numbers and 0-dim CPU tensors.
func (a *Argument) IsScalarKind() bool {
	switch a.Tag {
	case TagInt, TagDouble, TagBool, TagComplex, TagCPUScalar:
		return true
	}
	return false
}

// IsIntegralScalar is true for a number whose value is in Int.
func (a *Argument) IsIntegralScalar() bool {
	return a.Tag == TagInt || a.Tag == TagBool || a.Tag == TagCPUScalar && a.Integral
}

// IsComplexScalar is true for a number with an imaginary part type.
func (a *Argument) IsComplexScalar() bool {
	return a.Tag == TagComplex || a.Tag == TagCPUScalar && a.Dtype.IsComplex()
}

// AsFloat gives a number's real part.
func (a *Argument) AsFloat() float64 {
	if a.IsIntegralScalar() {
		return float64(a.Int)
	}
	return a.Float
}

// ---- IR values of arguments ----

// Node gives the value of tensor argument i (Tag TENSOR), row-major and dense, of the tensor's
// own dtype. Reading twice gives the same node.
func (c *Call) Node(i int) *ir.Node { return c.NodeOf(&c.Args[i]) }

// NodeOf is Node for an element of a tensor list.
func (c *Call) NodeOf(a *Argument) *ir.Node {
	if a.node == nil {
		if a.Tag != TagTensor {
			panic(status.Torchf(status.TypeError, "%s(): expected a tensor on device xla, got argument kind %d", c.row.Name, a.Tag))
		}
		a.node = c.access.Read(&a.View)
	}
	return a.node
}

// Value gives argument i as an IR value: a tensor's node, or a scalar parameter for a number or a
// 0-dim CPU tensor. A number's parameter has the width in which an op on dtype d computes
// (f32, f64, s64; complex for complex d). Lower converts and broadcasts it.
func (c *Call) Value(i int, d dtype.Dtype) *ir.Node {
	a := &c.Args[i]
	if a.Tag == TagTensor {
		return c.Node(i)
	}
	return c.ScalarOf(a, d)
}

// ScalarOf makes the scalar parameter of a number, in the width in which ops on d compute.
func (c *Call) ScalarOf(a *Argument, d dtype.Dtype) *ir.Node {
	switch {
	case d.IsComplex():
		imag := 0.0
		if a.IsComplexScalar() { // only then is Imag set
			imag = a.Imag
		}
		re, im := c.FloatNode(a.AsFloat(), d.Real()), c.FloatNode(imag, d.Real())
		n := c.graph.New(kindMakeComplex, d, nil)
		n.AddOperand(re)
		n.AddOperand(im)
		return n
	case d.IsIntegral():
		if a.IsIntegralScalar() {
			return c.IntNode(a.Int)
		}
		if d == dtype.Bool && (a.Float != 0 || a.IsComplexScalar() && a.Imag != 0) { // also where its whole part is 0
			return c.IntNode(1)
		}
		return c.IntNode(int64(a.Float))
	case a.IsIntegralScalar() && d == dtype.F64:
		return c.FloatNode(float64(a.Int), d)
	}
	return c.FloatNode(a.AsFloat(), d)
}

// FloatNode makes a scalar parameter for computing in d: f64 for f64, f32 otherwise.
func (c *Call) FloatNode(v float64, d dtype.Dtype) *ir.Node {
	if d == dtype.F64 || d == dtype.C128 {
		return c.graph.Scalar(dtype.F64, math.Float64bits(v))
	}
	return c.graph.Scalar(dtype.F32, math.Float64bits(v))
}

// IntNode makes an s64 scalar parameter.
func (c *Call) IntNode(v int64) *ir.Node { return c.graph.Scalar(dtype.S64, uint64(v)) }

// SeedAndOffset gives the state of generator argument i as two u64 scalar parameters and moves
// the generator on by numbers, so that no later draw repeats one of this call.
func (c *Call) SeedAndOffset(i int, numbers int64) (seed, offset *ir.Node) {
	g := c.Args[i].Generator
	seed, offset = c.graph.Scalar(dtype.U64, g.Seed), c.graph.Scalar(dtype.U64, *g.Offset)
	seed.IsSeed, offset.IsOffset = true, true
	c.graph.Draws.Note(g.Offset, seed, offset)
	*g.Offset += uint64(max(numbers, 0))
	return seed, offset
}

// ---- declaring the node and its results ----

// Operand adds operands of the row's node, in order.
func (c *Call) Operand(nodes ...*ir.Node) { c.operands = append(c.operands, nodes...) }

// Attr adds integer attributes: they are part of the program.
func (c *Call) Attr(v ...int64) { c.attrs = append(c.attrs, v...) }

// AttrInts adds a list with its length in front.
func (c *Call) AttrInts(v []int64) {
	c.attrs = append(c.attrs, int64(len(v)))
	c.attrs = append(c.attrs, v...)
}

// AttrFloat adds a float that chooses the program (an eps, an exponent), by its bits.
func (c *Call) AttrFloat(v float64) { c.attrs = append(c.attrs, int64(math.Float64bits(v))) }

// AttrBool adds a bool.
func (c *Call) AttrBool(v bool) {
	if v {
		c.attrs = append(c.attrs, 1)
	} else {
		c.attrs = append(c.attrs, 0)
	}
}

// Out declares the row's only result and makes its node from the operands and attributes.
func (c *Call) Out(d dtype.Dtype, dims []int64) error {
	c.Return(c.finish(c.row.kind, d, dims))
	return nil
}

func (c *Call) finish(kind ir.Kind, d dtype.Dtype, dims []int64) *ir.Node {
	n := c.graph.New(kind, d, dims)
	for _, operand := range c.operands {
		n.AddOperand(operand)
	}
	n.Attributes = append(n.Attributes, c.attrs...)
	c.operands, c.attrs = c.operands[:0], c.attrs[:0]
	return n
}

// Many makes the node of a row with several results; Element then gives each of them.
func (c *Call) Many() *ir.Node { return c.finish(c.row.kind, dtype.Tuple, nil) }

// Element gives result i of a node made by Many.
func (c *Call) Element(many *ir.Node, i int, d dtype.Dtype, dims []int64) *ir.Node {
	return c.graph.Element(many, i, d, dims)
}

// Return declares the next result. A nil node is an undefined tensor.
func (c *Call) Return(n *ir.Node) { c.Results = append(c.Results, Result{n}) }

// Build makes a node of another kind, for rows that are made of several.
func (c *Call) Build(kind ir.Kind, d dtype.Dtype, dims []int64, operands ...*ir.Node) *ir.Node {
	n := c.graph.New(kind, d, dims)
	for _, operand := range operands {
		n.AddOperand(operand)
	}
	return n
}

// BuildRow makes the node of the row named name, for metas that reuse another row's lowering.
func (c *Call) BuildRow(name string, d dtype.Dtype, dims []int64, operands ...*ir.Node) *ir.Node {
	return c.Build(rowByName[name].kind, d, dims, operands...)
}

// Write puts a value into tensor argument i in place (running statistics, foreach, fused steps);
// sizes are equal, the dtype is converted.
func (c *Call) Write(i int, n *ir.Node) error { return c.access.Write(&c.Args[i].View, n) }

// WriteTo is Write for an element of a tensor list.
func (c *Call) WriteTo(a *Argument, n *ir.Node) error { return c.access.Write(&a.View, n) }

// Name gives the row's name for messages.
func (c *Call) Name() string { return c.row.Name }

// Dim normalises a dimension number as torch does (IndexError outside [-rank, rank-1], where a
// 0-dim tensor counts as rank 1).
func (c *Call) Dim(d int64, rank int) (int, error) {
	r := int64(max(rank, 1))
	if d < -r || d >= r {
		return 0, status.Torchf(status.IndexError, "Dimension out of range (expected to be in range of [%d, %d], but got %d)", -r, r-1, d)
	}
	if d < 0 {
		d += r
	}
	return int(d), nil
}

// Errorf is an error with torch's wording that raises RuntimeError.
func Errorf(format string, args ...any) error {
	return status.Torchf(status.RuntimeError, format, args...)
}
