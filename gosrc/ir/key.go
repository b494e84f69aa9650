package ir

import (
	"encoding/binary"
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// The canonical key is the program: for each node in post-order its kind, type, attributes and
// operands (as distances back), then the outputs in order, then the donors, then over how many
// devices it is partitioned and the shardings of the outputs, then by how many replicas or on which device it runs. A
// device value's attributes are how it lies over the devices. Values of scalars and identities of buffers are not in it. Numbers are varints;
// attributes are zigzag varints.
//
// Two graphs that differ in anything that the compiled program depends on have different keys,
// and a key can be decoded again, so that lowering, dumps and the persistent cache read it
// instead of nodes.

// Signature is what a program depends on besides its graph.
type Signature struct {
	// Outputs are the roots, in order, from the last Walk. Donors are parameter numbers, sorted.
	Outputs []*Node
	Donors  []int
	// Partitions is the number of devices of a partitioned program, 0 for one of a single device; then Shardings may say
	// how outputs are to lie: nil leaves one to the compiler, and a nil list all of them.
	Partitions int
	Shardings  []*hlo.Sharding
	// Replicas is the number of devices, from the first on, that run a program with collectives together, each with values of
	// its own; 0 for a program of one device, whose index Device is then.
	Replicas int
	Device   int
	// Precision is that of the products that ask for none.
	Precision hlo.Precision
}

func appendNode(key []byte, n *Node) []byte {
	key = appendHead(key, n.Kind, false, n.Dtype, n.Dims)
	attributes := n.Attributes
	if n.Kind == KindParameter && n.Buffer != nil {
		attributes = n.Buffer.layout()
	}
	key = binary.AppendUvarint(key, uint64(len(attributes)))
	for _, a := range attributes {
		key = binary.AppendVarint(key, a)
	}
	return appendOperands(key, n)
}

func appendOperands(key []byte, n *Node) []byte {
	key = binary.AppendUvarint(key, uint64(len(n.Operands)))
	for _, operand := range n.Operands {
		key = binary.AppendUvarint(key, uint64(n.index-operand.index))
	}
	return key
}

// appendHead appends what each node starts with. The lowest bit of its first number says whether attributes of it
// are parameters.
func appendHead(key []byte, kind Kind, varied bool, d dtype.Dtype, dims []int64) []byte {
	first := uint64(kind) << 1
	if varied {
		first |= 1
	}
	key = binary.AppendUvarint(key, first)
	key = append(key, byte(d))
	return appendDims(key, dims)
}

func appendSignature(key []byte, s Signature) []byte {
	key = binary.AppendUvarint(key, uint64(len(s.Outputs)))
	for _, root := range s.Outputs {
		key = binary.AppendUvarint(key, uint64(root.index))
	}
	key = binary.AppendUvarint(key, uint64(len(s.Donors)))
	for _, d := range s.Donors {
		key = binary.AppendUvarint(key, uint64(d))
	}
	key = appendPartitions(key, s.Partitions, len(s.Outputs), s.Shardings)
	return appendDevices(key, s.Replicas, s.Device, s.Precision)
}

func appendDevices(key []byte, replicas, device int, precision hlo.Precision) []byte {
	key = binary.AppendUvarint(key, uint64(replicas))
	key = binary.AppendUvarint(key, uint64(device))
	return append(key, byte(precision))
}

func appendPartitions(key []byte, partitions, outputs int, shardings []*hlo.Sharding) []byte {
	key = binary.AppendUvarint(key, uint64(partitions))
	if partitions == 0 {
		return key
	}
	var scratch [64]int64
	for i := range outputs {
		attributes := scratch[:0]
		if i < len(shardings) {
			attributes = AppendSharding(attributes, shardings[i])
		}
		key = binary.AppendUvarint(key, uint64(len(attributes)))
		for _, a := range attributes {
			key = binary.AppendVarint(key, a)
		}
	}
	return key
}

func appendDims(key []byte, dims []int64) []byte {
	key = append(key, byte(len(dims)))
	for _, d := range dims {
		key = binary.AppendUvarint(key, uint64(d))
	}
	return key
}

// Program is a decoded key.
type Program struct {
	Nodes   []ProgramNode
	Outputs []int // indices of nodes
	Donors  []Donation
	// Partitions is the number of devices that it is partitioned over, 0 for a program of one device; Shardings, as
	// many as outputs then, say how those are to lie, nil where the compiler chooses.
	Partitions int
	Shardings  []*hlo.Sharding
	// Unchecked leaves out what tells of values that operators must not get; see Check. Not in the key.
	Unchecked bool
	// Marks says what becomes of the marks of composites. Not in the key.
	Marks hlo.Marks
	// Replicas, Device and Precision are those of Signature.
	Replicas, Device int
	Precision        hlo.Precision
	// Interface is how others call the program, nil where the executor does. Not in the key.
	Interface *Interface
}

// Donation lets a program reuse the memory of a parameter: for the given output (a position in
// Outputs), whose old value the parameter is, or for any where Output is negative.
type Donation struct{ Parameter, Output int }

// ProgramNode is one node of a program; operands are indices of earlier nodes.
type ProgramNode struct {
	Kind       Kind
	Dtype      dtype.Dtype
	Dims       []int64
	Attributes []int64
	Operands   []int
	// Varied are the positions of the attributes that are parameters, ascending: the last operands give them, in this
	// order, and the attributes themselves are 0. Case is that of Variables; 0 where nothing is varied.
	Varied []int
	Case   uint64
	Stack  Stack // not in the key: see SetStacks
}

// NumParameters gives the number of device values that the program takes.
func (p *Program) NumParameters() int {
	n := 0
	for i := range p.Nodes {
		if p.Nodes[i].Kind == KindParameter {
			n++
		}
	}
	return n
}

type keyReader struct {
	rest []byte
	bad  bool
}

func (r *keyReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *keyReader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *keyReader) byte() byte {
	if len(r.rest) == 0 {
		r.bad = true
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

// count reads a length and refuses one that the rest of the key cannot hold.
func (r *keyReader) count() int {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.bad = true
		return 0
	}
	return int(n)
}

// number reads one that is at most limit.
func (r *keyReader) number(limit int64) int64 {
	n := r.uvarint()
	if limit < 0 || n > uint64(limit) {
		r.bad = true
		return 0
	}
	return int64(n)
}

func (r *keyReader) varints() []int64 {
	list := make([]int64, r.count())
	for k := range list {
		list[k] = r.varint()
	}
	return list
}

// DecodeKey decodes a key; DataLoss where the bytes are not one.
func DecodeKey(key []byte) (*Program, error) {
	r := &keyReader{rest: key}
	p := &Program{Nodes: make([]ProgramNode, r.count())}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		first := r.uvarint()
		n.Kind = Kind(first >> 1)
		n.Dtype = dtype.Dtype(r.byte())
		n.Dims = make([]int64, r.byte())
		for k := range n.Dims {
			n.Dims[k] = r.number(math.MaxInt64)
		}
		if _, countable := shape.Count(n.Dims); !countable {
			r.bad = true
		}
		n.Attributes = r.varints()
		n.Operands = make([]int, r.count())
		for k := range n.Operands {
			n.Operands[k] = i - int(r.number(int64(i)))
			r.bad = r.bad || n.Operands[k] == i
		}
		if first&1 != 0 {
			r.varied(n)
		}
		if r.bad || first>>1 >= uint64(len(definitions)) || n.Kind == KindInvalid {
			return nil, status.Errorf(status.DataLoss, "DecodeKey(): node %d of the program key is damaged", i)
		}
	}
	p.Outputs = make([]int, r.count())
	for k := range p.Outputs {
		p.Outputs[k] = int(r.number(int64(len(p.Nodes)) - 1))
	}
	p.Donors = make([]Donation, r.count())
	for k := range p.Donors {
		p.Donors[k] = Donation{Parameter: int(r.number(int64(len(p.Nodes)) - 1)), Output: -1}
	}
	if p.Partitions = int(r.number(math.MaxInt32)); p.Partitions > 0 {
		p.Shardings = make([]*hlo.Sharding, len(p.Outputs))
		for k := range p.Shardings {
			var err error
			if p.Shardings[k], err = ShardingOf(r.varints()); err != nil {
				return nil, err
			}
		}
	}
	p.Replicas, p.Device = int(r.number(math.MaxInt32)), int(r.number(math.MaxInt32))
	p.Precision = hlo.Precision(r.byte())
	r.bad = r.bad || p.Precision > hlo.PrecisionHighest
	if r.bad || len(r.rest) > 0 {
		return nil, status.Errorf(status.DataLoss, "DecodeKey(): the program key is damaged")
	}
	return p, nil
}

// AppendKey appends the program's key: DecodeKey's reverse.
func (p *Program) AppendKey(key []byte) []byte {
	key = binary.AppendUvarint(key, uint64(len(p.Nodes)))
	for i, n := range p.Nodes {
		key = appendHead(key, n.Kind, len(n.Varied) > 0, n.Dtype, n.Dims)
		key = binary.AppendUvarint(key, uint64(len(n.Attributes)))
		for _, a := range n.Attributes {
			key = binary.AppendVarint(key, a)
		}
		key = binary.AppendUvarint(key, uint64(len(n.Operands)))
		for _, operand := range n.Operands {
			key = binary.AppendUvarint(key, uint64(i-operand))
		}
		if len(n.Varied) > 0 {
			key = appendVaried(key, &n)
		}
	}
	key = binary.AppendUvarint(key, uint64(len(p.Outputs)))
	for _, o := range p.Outputs {
		key = binary.AppendUvarint(key, uint64(o))
	}
	key = binary.AppendUvarint(key, uint64(len(p.Donors)))
	for _, d := range p.Donors {
		key = binary.AppendUvarint(key, uint64(d.Parameter))
	}
	key = appendPartitions(key, p.Partitions, len(p.Outputs), p.Shardings)
	return appendDevices(key, p.Replicas, p.Device, p.Precision)
}

// Only gives the part of the program that computes the given output alone, without donors. The
// result's nodes keep their relative order; parameters lists, for each of its parameters, the
// number that the parameter has in p, and scalars likewise.
func (p *Program) Only(output int) (part *Program, parameters, scalars []int) {
	needed := make([]bool, len(p.Nodes))
	root := p.Outputs[output]
	needed[root] = true
	for i := root; i >= 0; i-- {
		if needed[i] {
			for _, operand := range p.Nodes[i].Operands {
				needed[operand] = true
			}
		}
	}
	part = &Program{Partitions: p.Partitions, Replicas: p.Replicas, Device: p.Device, Precision: p.Precision}
	if p.Partitions > 0 {
		part.Shardings = p.Shardings[output : output+1]
	}
	moved := make([]int, len(p.Nodes))
	parameter, scalar := 0, 0
	for i, n := range p.Nodes {
		if needed[i] {
			moved[i] = len(part.Nodes)
			operands := make([]int, len(n.Operands))
			for k, operand := range n.Operands {
				operands[k] = moved[operand]
			}
			n.Operands = operands
			part.Nodes = append(part.Nodes, n)
		}
		switch n.Kind {
		case KindParameter:
			if needed[i] {
				parameters = append(parameters, parameter)
			}
			parameter++
		case KindScalar:
			if needed[i] {
				scalars = append(scalars, scalar)
			}
			scalar++
		}
	}
	part.Outputs = []int{moved[root]}
	return part, parameters, scalars
}
