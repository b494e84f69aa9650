// Package tensor holds storages and strided views: what a torch tensor reads and writes, as IR
// values. A storage holds one IR value, its current contents, row-major and dense; a tensor is a
// window (sizes, strides, offset, dtype) on a storage.
//
// Everything here runs under the executor's Core.Mu.
package tensor

import (
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/executor"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/ops"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Storage is the memory behind one torch storage: an executor root and its size. The value has
// exactly ByteSize bytes; it is absent for a storage that nothing was written to.
type Storage struct {
	executor.Root
	ByteSize int64
	id       int64
}

// Space is the set of storages of the process.
type Space struct {
	Core     *executor.Core
	storages []*Storage // by id; id 0 is none
	freeIDs  []int64
	pool     []*Storage
	live     int64
}

// NewSpace makes an empty set over core.
func NewSpace(core *executor.Core) *Space {
	return &Space{Core: core, storages: make([]*Storage, 1, 1<<12)}
}

// Live gives the number of storages.
func (s *Space) Live() int64 { return s.live }

// New makes a storage without a value and gives its id.
func (s *Space) New(device int, byteSize int64, hasBuffer *int32) (*Storage, int64, error) {
	d, err := s.Core.Device(device)
	if err != nil {
		return nil, 0, err
	}
	var storage *Storage
	if last := len(s.pool) - 1; last >= 0 {
		storage = s.pool[last]
		s.pool = s.pool[:last]
	} else {
		storage = &Storage{}
	}
	storage.Init(d)
	storage.HasBuffer = hasBuffer
	storage.ByteSize = byteSize
	if last := len(s.freeIDs) - 1; last >= 0 {
		storage.id = s.freeIDs[last]
		s.freeIDs = s.freeIDs[:last]
		s.storages[storage.id] = storage
	} else {
		storage.id = int64(len(s.storages))
		s.storages = append(s.storages, storage)
	}
	s.live++
	return storage, storage.id, nil
}

// Get gives the storage with an id that New gave and Drop did not take back.
func (s *Space) Get(id int64) *Storage { return s.storages[id] }

// ValueOf gives the value of the storage with an id that comes from outside; FailedPrecondition where nothing was
// written to it.
func (s *Space) ValueOf(id int64) (*ir.Node, error) {
	if id <= 0 || id >= int64(len(s.storages)) || s.storages[id] == nil || s.storages[id].Value() == nil {
		return nil, status.Errorf(status.FailedPrecondition, "expected a storage with a value")
	}
	return s.storages[id].Value(), nil
}

// Drop forgets a storage and frees what only it held.
func (s *Space) Drop(id int64) {
	storage := s.storages[id]
	if storage == nil {
		return
	}
	storage.Root.Drop()
	storage.HasBuffer = nil
	s.storages[id] = nil
	s.freeIDs = append(s.freeIDs, id)
	s.pool = append(s.pool, storage)
	s.live--
}

// Held is a value in device memory that a storage holds.
type Held struct {
	Storage int64
	Device  int
	Value   *ir.Node
}

// HeldValues gives the values in device memory, or on their way there, that storages hold, in the order of storages.
func (s *Space) HeldValues() []Held {
	var held []Held
	for id, storage := range s.storages {
		if storage != nil && storage.Value() != nil && storage.Value().IsLeaf() {
			held = append(held, Held{int64(id), storage.Device().Index, storage.Value()})
		}
	}
	return held
}

// Read gives the value of a view as an IR node, row-major and dense. A view of the whole storage
// in its own shape costs nothing.
func (s *Space) Read(v *ops.View) *ir.Node {
	storage := v.Storage.(*Storage)
	graph := &s.Core.Graph
	value := storage.Value()
	if value == nil {
		value = s.undefined(storage, v)
	}
	n := value
	if !isWhole(value, v) {
		n = graph.New(kindView, v.Dtype, v.Sizes)
		n.AddInt(v.Offset)
		n.AddInts(v.Strides)
		n.AddOperand(s.flatAs(value, v.Dtype))
	}
	if v.Conj {
		n = s.unary(kindConj, n)
	}
	if v.Neg {
		n = s.unary(kindNegate, n)
	}
	return n
}

func (s *Space) unary(kind ir.Kind, operand *ir.Node) *ir.Node {
	n := s.Core.Graph.New(kind, operand.Dtype, operand.Dims)
	n.AddOperand(operand)
	return n
}

// undefined gives a storage that nothing was written to its contents: zeros, in the view's own
// shape where the view is all of it.
func (s *Space) undefined(storage *Storage, v *ops.View) *ir.Node {
	n := s.Core.Graph.New(kindZeros, v.Dtype, []int64{elements(storage.ByteSize, v.Dtype)})
	if v.Offset == 0 && isContiguous(v.Sizes, v.Strides) && shape.Product(v.Sizes) == n.Dims[0] {
		n.Dims = append(n.Dims[:0], v.Sizes...)
	}
	storage.Set(n)
	return n
}

// flatAs gives value with the bytes read as elements of d; value itself where that is its type.
func (s *Space) flatAs(value *ir.Node, d dtype.Dtype) *ir.Node {
	if value.Dtype == d {
		return value
	}
	n := s.Core.Graph.New(kindReinterpret, d, []int64{elements(value.NumElements()*value.Dtype.Size(), d)})
	n.AddOperand(value)
	return n
}

func elements(bytes int64, d dtype.Dtype) int64 { return bytes / max(d.Size(), 1) }

// Write puts value (of the view's sizes, or broadcastable to them) into the view, converting the
// dtype.
func (s *Space) Write(v *ops.View, value *ir.Node) error {
	storage := v.Storage.(*Storage)
	if shape.Product(v.Sizes) == 0 {
		return nil
	}
	for i, size := range v.Sizes {
		if size > 1 && v.Strides[i] == 0 {
			return ops.Errorf("unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please clone() the tensor before performing the operation.")
		}
	}
	if v.Neg {
		value = s.unary(kindNegate, s.cast(value, v.Dtype))
	}
	if v.Conj {
		value = s.unary(kindConj, s.cast(value, v.Dtype))
	}
	if !slices.Equal(value.Dims, v.Sizes) {
		n := s.Core.Graph.New(kindBroadcast, value.Dtype, v.Sizes)
		n.AddOperand(value)
		value = n
	}
	value = s.cast(value, v.Dtype)
	count := shape.Product(v.Sizes)
	if count == 0 {
		return nil
	}
	if v.Offset == 0 && count*v.Dtype.Size() == storage.ByteSize && isContiguous(v.Sizes, v.Strides) {
		storage.Set(value)
		return nil
	}
	if end := v.Offset + extent(v.Sizes, v.Strides); end*v.Dtype.Size() > storage.ByteSize {
		return status.Errorf(status.OutOfRange, "write: expected a view inside the storage of %d bytes, got one that ends at byte %d", storage.ByteSize, end*v.Dtype.Size())
	}
	base := storage.Value()
	if base == nil {
		base = s.Core.Graph.New(kindZeros, v.Dtype, []int64{elements(storage.ByteSize, v.Dtype)})
	}
	base = s.flatAs(base, v.Dtype)
	n := s.Core.Graph.New(kindViewUpdate, base.Dtype, base.Dims)
	n.AddInt(v.Offset)
	n.AddInts(v.Sizes)
	n.AddInts(v.Strides)
	n.AddOperand(base)
	n.AddOperand(value)
	storage.Set(n)
	return nil
}

func (s *Space) cast(value *ir.Node, d dtype.Dtype) *ir.Node {
	if value.Dtype == d {
		return value
	}
	n := s.Core.Graph.New(kindCast, d, value.Dims)
	n.AddOperand(value)
	return n
}

// Resize changes a storage's size. The bytes that fit are kept, new ones are zero.
func (s *Space) Resize(storage *Storage, byteSize int64) {
	old := storage.ByteSize
	storage.ByteSize = byteSize
	value := storage.Value()
	if value == nil || old == byteSize {
		return
	}
	if size := value.Dtype.Size(); old%size != 0 || byteSize%size != 0 {
		value = s.flatAs(value, dtype.U8)
	}
	n := s.Core.Graph.New(kindResize, value.Dtype, []int64{elements(byteSize, value.Dtype)})
	n.AddOperand(value)
	storage.Set(n)
}

// isWhole is true where the view is all of value, in value's own shape and order.
func isWhole(value *ir.Node, v *ops.View) bool {
	if v.Offset != 0 || value.Dtype != v.Dtype || len(v.Sizes) != len(value.Dims) {
		return false
	}
	stride := int64(1)
	for i := len(v.Sizes) - 1; i >= 0; i-- {
		size := v.Sizes[i]
		if size != value.Dims[i] || size != 1 && v.Strides[i] != stride {
			return false
		}
		stride *= size
	}
	return true
}

func isContiguous(sizes, strides []int64) bool {
	stride := int64(1)
	for i := len(sizes) - 1; i >= 0; i-- {
		if sizes[i] == 0 {
			return true
		}
		if sizes[i] != 1 {
			if strides[i] != stride {
				return false
			}
			stride *= sizes[i]
		}
	}
	return true
}

// extent gives the number of elements from a view's first to its last, both counted.
func extent(sizes, strides []int64) int64 {
	last := int64(0)
	for i, size := range sizes {
		if size == 0 {
			return 0
		}
		last += (size - 1) * strides[i]
	}
	return last + 1
}
