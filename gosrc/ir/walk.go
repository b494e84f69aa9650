package ir

import (
	"encoding/binary"
	"math"

	"xla_go/gosrc/dtype"
)

// Walk is what a walk found below its roots; valid until the graph's next walk.
//
// It is made in one pass, node by node: a large graph does not fit into a processor's cache, and each pass over it costs
// as much as all of the work on it.
type Walk struct {
	// Order is the nodes in post-order: each once, operands first, in an order that depends on the graph alone.
	Order []*Node
	// Parameters is the device values among them, in order: the program's parameters.
	Parameters []*Node
	// Scalars is their scalars' values, packed as the lowered module unpacks them.
	Scalars []byte

	// Collective: the replicas exchange values in one of the nodes.
	Collective bool

	key []byte // the nodes' part of the key
}

type walkFrame struct {
	node *Node
	next int
}

// Walk walks the nodes below roots. Afterwards Visited, Index and Edges answer for this walk.
//
// It is iterative: a chain of operations may be longer than any stack.
func (g *Graph) Walk(roots []*Node) *Walk {
	g.epoch++
	w := &g.walk
	*w = Walk{Order: w.Order[:0], Parameters: w.Parameters[:0], Scalars: w.Scalars[:0], key: w.key[:0]}
	stack := g.walkStack[:0]
	for _, root := range roots {
		if root.mark != g.epoch {
			root.mark, root.edges, root.bases = g.epoch, 0, 0
			stack = append(stack, walkFrame{root, 0})
		}
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if top.next == len(top.node.Operands) {
				w.visit(top.node)
				stack = stack[:len(stack)-1]
				continue
			}
			operand := top.node.Operands[top.next]
			top.next++
			if operand.mark != g.epoch {
				operand.mark, operand.edges, operand.bases = g.epoch, 1, 0
				if len(operand.Operands) == 0 {
					w.visit(operand)
				} else {
					stack = append(stack, walkFrame{operand, 0})
				}
			} else {
				operand.edges++
			}
		}
	}
	g.walkStack = stack
	return w
}

func (w *Walk) visit(n *Node) {
	n.index = int32(len(w.Order))
	w.Order = append(w.Order, n)
	w.key = appendNode(w.key, n)
	w.Collective = w.Collective || n.Kind.IsCollective()
	switch n.Kind {
	case KindParameter:
		w.Parameters = append(w.Parameters, n)
	case KindScalar:
		w.Scalars = appendScalar(w.Scalars, n)
	}
}

// AppendKey appends the key of the walked graph.
func (w *Walk) AppendKey(key []byte, s Signature) []byte {
	key = binary.AppendUvarint(key, uint64(len(w.Order)))
	key = append(key, w.key...)
	return appendSignature(key, s)
}

// AppendScalars packs the scalars of the walked graph, and those of its variable attributes that are parameters of its
// program, as its lowered module unpacks them.
func (w *Walk) AppendScalars(pack []byte, varied []bool) []byte {
	if varied == nil {
		return append(pack, w.Scalars...)
	}
	var numbers []Variable
	for _, n := range w.Order {
		if n.Kind == KindScalar {
			pack = appendScalar(pack, n)
			continue
		}
		numbers = AppendVariables(numbers[:0], n)
		for i, number := range numbers {
			if varied[i] {
				pack = binary.LittleEndian.AppendUint64(pack, uint64(number.Bits))
			}
		}
		varied = varied[len(numbers):]
	}
	return pack
}

func appendScalar(pack []byte, n *Node) []byte {
	switch n.Dtype {
	case dtype.F32:
		return binary.LittleEndian.AppendUint32(pack, math.Float32bits(float32(math.Float64frombits(n.Scalar))))
	default: // F64, S64, U64: their 64 bits
		return binary.LittleEndian.AppendUint64(pack, n.Scalar)
	}
}

// Visited is true where the last walk met n.
func (g *Graph) Visited(n *Node) bool { return n.mark == g.epoch }

// Edges gives the number of edges to n that the last walk saw.
func (n *Node) Edges() int32 { return n.edges }

// NoteBase notes that an output of the graph, given by its number, is a new value of what holds n now. Nothing where the
// last walk did not meet n.
func (g *Graph) NoteBase(n *Node, output int) {
	if g.Visited(n) {
		n.bases++
		n.base = int32(output)
	}
}

// Bases gives how often the last walk's n was noted, and the output that was noted last.
func (n *Node) Bases() (count, output int) { return int(n.bases), int(n.base) }

// Index gives n's position in the last walk's order.
func (n *Node) Index() int { return int(n.index) }
