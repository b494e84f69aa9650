package ir

import "math/bits"

// pool keeps nodes that nothing holds, for reuse: in blocks, and given out in the order of their places, the first free
// one first. So nodes that are made one after another lie one after another, however the graphs before them were
// taken apart, and small graphs after a large one stay where the processor's cache has them. (A list of free nodes, last
// in, first out, is in no order after a few large graphs, and each step of a walk waits for memory.)
//
// Blocks are kept for good: the pool is as large as the largest graph was.
type pool struct {
	blocks []*block
	some   []uint64 // a bit for each block: it has a free node
	first  int      // no word of some before this one has a bit
}

const blockNodes = 64 // as many as a word has bits

type block struct {
	nodes [blockNodes]Node
	free  uint64 // a bit for each node
}

// place is where a node is in its graph's pool.
type place uint32

// take gives the first free node.
func (p *pool) take() *Node {
	for p.first < len(p.some) && p.some[p.first] == 0 {
		p.first++
	}
	if p.first == len(p.some) {
		p.grow()
	}
	at := p.first*64 + bits.TrailingZeros64(p.some[p.first])
	b := p.blocks[at]
	n := &b.nodes[bits.TrailingZeros64(b.free)]
	b.free &= b.free - 1
	if b.free == 0 {
		p.some[p.first] &= p.some[p.first] - 1
	}
	return n
}

// keptAttributes is for how many attributes a node that is given back keeps the memory.
const keptAttributes = 256

// give takes a node back.
func (p *pool) give(n *Node) {
	if cap(n.Attributes) > keptAttributes { // a whole program was among them
		n.Attributes = n.attributes[:0]
	}
	at := int(n.place / blockNodes)
	p.blocks[at].free |= 1 << (n.place % blockNodes)
	p.some[at/64] |= 1 << (at % 64)
	p.first = min(p.first, at/64)
}

// grow adds a block of free nodes, after all others.
func (p *pool) grow() {
	at := len(p.blocks)
	b := &block{free: 1<<blockNodes - 1}
	for i := range b.nodes {
		n := &b.nodes[i]
		n.place = place(at*blockNodes + i)
		n.Dims, n.Operands, n.Attributes = n.dims[:0], n.operands[:0], n.attributes[:0]
	}
	p.blocks = append(p.blocks, b)
	if at%64 == 0 {
		p.some = append(p.some, 0)
	}
	p.first = at / 64
	p.some[p.first] |= 1 << (at % 64)
}
