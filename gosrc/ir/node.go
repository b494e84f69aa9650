// Package ir holds the lazy program: nodes, the graph that owns them, the canonical key that is
// the program in a decodable form, and the lowering of a key to HLO.
//
// Nothing here is safe for concurrent use by itself: a Graph and its nodes are used under the
// lock of the executor's core. A Program (decoded from a key) is free of nodes and belongs to
// whoever decoded it.
package ir

import (
	"math"

	"xla_go/gosrc/dtype"
)

// Node is one IR value.
//
// Ownership: nodes are reference counted, not garbage collected, because a pending node keeps
// device buffers alive. Edges and storages count. A node starts at zero references and is listed
// as a temporary of the running call; EndCall frees the temporaries that nothing took. The drop
// of the last reference cascades at once and returns nodes to the graph's pool.
//
// A graph of 100,000 nodes does not fit into a processor's cache, so a node is three cache lines, in a block of others,
// and holds what most nodes need: what a walk and the drop of a graph look at is in the first two.
type Node struct {
	Kind      Kind
	Dtype     dtype.Dtype
	temporary bool
	Stack     Stack // of the call that made it, where stacks are recorded

	references int32
	cost       int32 // nodes below, saturating; see Graph.Cost
	mark       uint32
	index      int32 // position in the last walk's post-order
	edges      int32 // references from inside the graph that was walked last, counted for leaves
	place      place // in the pool

	Operands []*Node
	// Buffer is a KindParameter's device value.
	Buffer *Buffer

	operands [2]*Node
	Dims     []int64 // owned by the node, reused by the pool
	// Scalar holds the bits of a KindScalar: float64 bits for F32 and F64, the integer for S64 and U64.
	Scalar      uint64
	bases, base int32 // see NoteBase
	Draw        Draw  // of a KindScalar
	IsOffset    bool  // a KindScalar that is a random generator's offset
	IsSeed      bool  // a KindScalar that is a random generator's seed
	Unknown     bool  // it is made of a placeholder, and has no value outside of a region
	onHost      bool  // a leaf whose upload has not begun, as far as the graph knows
	_           [3]byte

	dims       [4]int64
	Attributes []int64
	attributes [1]int64
}

// References gives the number of edges and storages that hold the node.
func (n *Node) References() int32 { return n.references }

// NumElements gives the product of the dimensions.
func (n *Node) NumElements() int64 {
	c := int64(1)
	for _, d := range n.Dims {
		c *= d
	}
	return c
}

// IsLeaf is true for device values.
func (n *Node) IsLeaf() bool { return n.Kind == KindParameter }

// IsTemporary is true in the call that made the node, which may still use it without a reference.
func (n *Node) IsTemporary() bool { return n.temporary }

// AddInt appends one attribute.
func (n *Node) AddInt(v int64) { n.Attributes = append(n.Attributes, v) }

// AddInts appends a list of attributes with its length in front.
func (n *Node) AddInts(v []int64) {
	n.Attributes = append(n.Attributes, int64(len(v)))
	n.Attributes = append(n.Attributes, v...)
}

// AddFloat appends a float attribute by its bits.
func (n *Node) AddFloat(v float64) { n.AddInt(int64(math.Float64bits(v))) }

// AddBool appends a bool attribute.
func (n *Node) AddBool(v bool) {
	if v {
		n.AddInt(1)
	} else {
		n.AddInt(0)
	}
}

// Graph makes, counts and recycles nodes.
type Graph struct {
	// Stack is what new nodes get.
	Stack Stack
	// Draws follows the random numbers that the graph takes; see Draws.
	Draws Draws

	pool        pool
	temporaries []*Node
	stack       []*Node
	live        int64
	epoch       uint32
	walkStack   []walkFrame
	walk        Walk
}

// Live gives the number of nodes that something holds or that the running call made.
func (g *Graph) Live() int64 { return g.live }

// New makes a node without operands. It is a temporary of the running call until EndCall.
func (g *Graph) New(kind Kind, d dtype.Dtype, dims []int64) *Node {
	n := g.pool.take()
	// All that a node before it may have left: it would show up in another program's key. (Operands of its own point into
	// the pool, and its Buffer went when it did.)
	n.Kind, n.Dtype, n.Stack, n.Scalar = kind, d, g.Stack, 0
	n.Dims, n.Operands, n.Attributes = append(n.Dims[:0], dims...), n.Operands[:0], n.Attributes[:0]
	n.temporary, n.cost = true, 1
	n.mark, n.index, n.edges, n.bases, n.base, n.Draw, n.IsOffset, n.IsSeed, n.Unknown, n.onHost = 0, 0, 0, 0, 0, NoDraw, false, false, kind == KindPlaceholder, false
	g.temporaries = append(g.temporaries, n)
	g.live++
	return n
}

// AddOperand appends an edge and takes a reference on operand. The upload of a deferred value begins with the first node that
// takes it, so that it goes on while the rest is traced and compiled.
func (n *Node) AddOperand(operand *Node) {
	if operand.onHost {
		operand.onHost = false
		operand.Buffer.begin()
	}
	operand.references++
	n.Operands = append(n.Operands, operand)
	n.cost = saturatingAdd(n.cost, operand.cost)
	n.Unknown = n.Unknown || operand.Unknown
}

func saturatingAdd(a, b int32) int32 {
	if s := int64(a) + int64(b); s < math.MaxInt32 {
		return int32(s)
	}
	return math.MaxInt32
}

// Scalar makes a scalar parameter: its value is not part of the program. F32, F64, S64 or U64.
func (g *Graph) Scalar(d dtype.Dtype, bits uint64) *Node {
	n := g.New(KindScalar, d, nil)
	n.Scalar = bits
	return n
}

// Leaf makes the node of a device value and takes over one reference of buffer.
func (g *Graph) Leaf(buffer *Buffer, d dtype.Dtype, dims []int64) *Node {
	n := g.New(KindParameter, d, dims)
	n.Buffer, n.onHost = buffer, buffer != nil && buffer.deferred != nil
	return n
}

// Element makes the node of one result of a node with several results.
func (g *Graph) Element(of *Node, i int, d dtype.Dtype, dims []int64) *Node {
	n := g.New(KindElement, d, dims)
	n.AddInt(int64(i))
	n.AddOperand(of)
	return n
}

// Retain takes a reference.
func (g *Graph) Retain(n *Node) { n.references++ }

// Release drops a reference; the last one frees the node and, in turn, its operands.
func (g *Graph) Release(n *Node) {
	n.references--
	if n.references == 0 && !n.temporary {
		g.recycle(n)
	}
}

func (g *Graph) recycle(n *Node) {
	stack := append(g.stack[:0], n)
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if n.Buffer != nil {
			n.Buffer.Release()
			n.Buffer = nil
		}
		for _, operand := range n.Operands {
			operand.references--
			if operand.references == 0 && !operand.temporary {
				stack = append(stack, operand)
			}
		}
		g.live--
		g.pool.give(n)
	}
	g.stack = stack
}

// Temporaries gives the number of nodes that the running call has made.
func (g *Graph) Temporaries() int { return len(g.temporaries) }

// EndCall ends a call's hold on the nodes that it made: those that nothing took are freed. Every
// path out of a call runs it, so an op that fails half-way leaks nothing.
func (g *Graph) EndCall() {
	// Newest first, so that an unused consumer frees its edges before its operands are looked at.
	for i := len(g.temporaries) - 1; i >= 0; i-- {
		n := g.temporaries[i]
		g.temporaries[i] = nil
		if !n.temporary {
			continue
		}
		n.temporary = false
		if n.references == 0 {
			g.recycle(n)
		}
	}
	g.temporaries = g.temporaries[:0]
}

// Cost gives the number of nodes below n, shared ones counted once per path and saturating: an
// upper bound that costs nothing to keep. Cutting by size looks at it.
func (n *Node) Cost() int32 { return n.cost }
