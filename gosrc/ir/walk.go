package ir

type walkFrame struct {
	node *Node
	next int
}

// Walk lists the nodes below roots in post-order: each once, operands first, in an order that
// depends on the graph alone. The result is valid until the next Walk. Afterwards Visited, Index
// and Edges answer for this walk.
//
// It is iterative: a chain of operations may be longer than any stack.
func (g *Graph) Walk(roots []*Node) []*Node {
	g.epoch++
	order := g.order[:0]
	stack := g.walkStack[:0]
	for _, root := range roots {
		if root.mark != g.epoch {
			root.mark, root.edges = g.epoch, 0
			stack = append(stack, walkFrame{root, 0})
		}
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if top.next == len(top.node.Operands) {
				top.node.index = int32(len(order))
				order = append(order, top.node)
				stack = stack[:len(stack)-1]
				continue
			}
			operand := top.node.Operands[top.next]
			top.next++
			if operand.mark != g.epoch {
				operand.mark, operand.edges = g.epoch, 1
				if len(operand.Operands) == 0 {
					operand.index = int32(len(order))
					order = append(order, operand)
				} else {
					stack = append(stack, walkFrame{operand, 0})
				}
			} else {
				operand.edges++
			}
		}
	}
	g.order, g.walkStack = order, stack
	return order
}

// Visited is true where the last walk met n.
func (g *Graph) Visited(n *Node) bool { return n.mark == g.epoch }

// Edges gives the number of edges to n that the last walk saw.
func (n *Node) Edges() int32 { return n.edges }

// Index gives n's position in the last walk's order.
func (n *Node) Index() int { return int(n.index) }
