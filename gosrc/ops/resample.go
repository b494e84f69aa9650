package ops

import (
	"encoding/binary"
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/shape"
)

// resampling is a linear map along one dimension, given sparsely: output i is the sum over k of
// weight[i][k] times input index[i][k]. Pooling, padding and interpolation are made of it, one
// dimension after the other. An input that is not named does not count at all, so that NaN and
// inf stay where torch's kernels leave them. A nil weight is all ones.
type resampling struct {
	index  [][]int
	weight [][]float64
}

// transposed gives the gradient's map, from outputs to size inputs.
func (r resampling) transposed(size int) resampling {
	t := resampling{index: make([][]int, size)}
	if r.weight != nil {
		t.weight = make([][]float64, size)
	}
	for i, row := range r.index {
		for k, from := range row {
			if last := len(t.index[from]) - 1; r.weight != nil && last >= 0 && t.index[from][last] == i {
				t.weight[from][last] += r.weight[i][k]
				continue
			}
			t.index[from] = append(t.index[from], i)
			if r.weight != nil {
				t.weight[from] = append(t.weight[from], r.weight[i][k])
			}
		}
	}
	return t
}

// column gives entry k of every row: the index, the weight, and whether the row has it.
func (r resampling) column(k int) (index []int, weight []float64, present []bool, all bool) {
	all = true
	index, weight, present = make([]int, len(r.index)), make([]float64, len(r.index)), make([]bool, len(r.index))
	for i, row := range r.index {
		if k >= len(row) {
			all = false
			if len(row) > 0 { // a place that is read anyway
				index[i] = row[len(row)-1]
			}
			continue
		}
		index[i], present[i], weight[i] = row[k], true, 1
		if r.weight != nil {
			weight[i] = r.weight[i][k]
		}
	}
	return index, weight, present, all
}

// tiles gives the size of the windows where they are unweighted and tile n inputs in order, else 0.
func (r resampling) tiles(n int64) int {
	size := len(r.index[0])
	if r.weight != nil || size < 2 || int64(size*len(r.index)) != n {
		return 0
	}
	for i, row := range r.index {
		if len(row) != size {
			return 0
		}
		for k, at := range row {
			if at != i*size+k {
				return 0
			}
		}
	}
	return size
}

// repeats gives how often index names each of n inputs, in order, or 0.
func repeats(index []int, n int64) int {
	if int64(len(index))%n != 0 {
		return 0
	}
	times := len(index) / int(n)
	for i, at := range index {
		if at != i/times {
			return 0
		}
	}
	return times
}

// unrolledTaps is the number of inputs per output up to which a resampling is a sum of reads,
// which XLA fuses; above it one gather and a reduction.
const unrolledTaps = 4

// resample applies r along dim. x is of a type in which to compute.
func resample(b *hlo.Builder, x hlo.Value, dim int, r resampling) hlo.Value {
	taps := 0
	for _, row := range r.index {
		taps = max(taps, len(row))
	}
	dims := append([]int64(nil), x.Dims()...)
	dims[dim] = int64(len(r.index))
	if taps == 0 || shape.Product(dims) == 0 {
		return b.Full(x.Dtype(), 0, dims...)
	}
	if size := r.tiles(x.Dims()[dim]); size > 0 {
		split := append([]int64(nil), x.Dims()[:dim]...)
		split = append(append(split, dims[dim], int64(size)), dims[dim+1:]...)
		return b.ReduceOp(hlo.Add, b.Reshape(x, split), b.Full(x.Dtype(), 0), []int{dim + 1})
	}
	if taps <= unrolledTaps {
		var sum hlo.Value
		for k := range taps {
			index, weight, present, all := r.column(k)
			term := take(b, x, dim, index)
			if r.weight != nil {
				term = b.Binary(hlo.Multiply, term, b.Broadcast(vector(b, x.Dtype(), weight), dims, []int{dim}))
			}
			if !all {
				term = b.Select(b.Broadcast(mask(b, present), dims, []int{dim}), term, b.Full(x.Dtype(), 0, dims...))
			}
			if k == 0 {
				sum = term
			} else {
				sum = b.Binary(hlo.Add, sum, term)
			}
		}
		return sum
	}
	rows := len(r.index)
	index, weight, present := make([]int, rows*taps), make([]float64, rows*taps), make([]bool, rows*taps)
	all := true
	for k := range taps {
		i, w, p, a := r.column(k)
		all = all && a
		for row := range rows {
			index[row*taps+k], weight[row*taps+k], present[row*taps+k] = i[row], w[row], p[row]
		}
	}
	dims[dim] = int64(rows * taps)
	y := take(b, x, dim, index)
	if r.weight != nil {
		y = b.Binary(hlo.Multiply, y, b.Broadcast(vector(b, x.Dtype(), weight), dims, []int{dim}))
	}
	if !all {
		y = b.Select(b.Broadcast(mask(b, present), dims, []int{dim}), y, b.Full(x.Dtype(), 0, dims...))
	}
	split := append([]int64(nil), dims[:dim]...)
	split = append(append(split, int64(rows), int64(taps)), dims[dim+1:]...)
	return b.ReduceOp(hlo.Add, b.Reshape(y, split), b.Full(x.Dtype(), 0), []int{dim + 1})
}

// take reads the given positions along dim: a slice where they are evenly spaced, a broadcast
// where each is read equally often, else a gather.
func take(b *hlo.Builder, x hlo.Value, dim int, index []int) hlo.Value {
	dims := x.Dims()
	step := 1
	if len(index) > 1 {
		step = index[1] - index[0]
	}
	even := step > 0 && len(index) > 0
	for i := range index {
		even = even && index[i] == index[0]+i*step
	}
	if even {
		if step == 1 && int64(len(index)) == dims[dim] {
			return x
		}
		start, limit, stride := make([]int64, len(dims)), append([]int64(nil), dims...), make([]int64, len(dims))
		for i := range stride {
			stride[i] = 1
		}
		start[dim], limit[dim], stride[dim] = int64(index[0]), int64(index[len(index)-1]+1), int64(step)
		return b.Slice(x, start, limit, stride)
	}
	if times := repeats(index, dims[dim]); times > 1 {
		wide := append(append(append([]int64(nil), dims[:dim+1]...), int64(times)), dims[dim+1:]...)
		from := make([]int, len(dims))
		for i := range from {
			from[i] = i
			if i > dim {
				from[i]++
			}
		}
		dims = append([]int64(nil), dims...)
		dims[dim] = int64(len(index))
		return b.Reshape(b.Broadcast(x, wide, from), dims)
	}
	offsets := make([]int64, 0, len(dims))
	sizes := append([]int64(nil), dims...)
	sizes[dim] = 1
	for i := range dims {
		if i != dim {
			offsets = append(offsets, int64(i))
		}
	}
	return b.Gather(x, indexVector(b, index), hlo.GatherDims{
		OffsetDims: offsets, CollapsedSliceDims: []int64{int64(dim)}, StartIndexMap: []int64{int64(dim)},
		IndexVectorDim: 1, SliceSizes: sizes,
	})
}

// vector is a constant of numbers of type d, a real type of 4 or 8 bytes.
func vector(b *hlo.Builder, d dtype.Dtype, v []float64) hlo.Value {
	data := make([]byte, 0, len(v)*int(d.Size()))
	for _, x := range v {
		switch d {
		case dtype.F64:
			data = binary.LittleEndian.AppendUint64(data, math.Float64bits(x))
		case dtype.F32:
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(x)))
		case dtype.S64:
			data = binary.LittleEndian.AppendUint64(data, uint64(int64(x)))
		default:
			data = binary.LittleEndian.AppendUint32(data, uint32(int32(x)))
		}
	}
	return b.Constant(shape.Make(d, int64(len(v))), data)
}

func indexVector(b *hlo.Builder, v []int) hlo.Value {
	data := make([]byte, 0, 4*len(v))
	for _, x := range v {
		data = binary.LittleEndian.AppendUint32(data, uint32(int32(x)))
	}
	return b.Constant(shape.Make(dtype.S32, int64(len(v))), data)
}

func mask(b *hlo.Builder, v []bool) hlo.Value {
	data := make([]byte, len(v))
	for i, x := range v {
		if x {
			data[i] = 1
		}
	}
	return b.Constant(shape.Make(dtype.Bool, int64(len(v))), data)
}
