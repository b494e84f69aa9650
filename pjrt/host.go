package pjrt

/*
#include <string.h>
#include "pack.h"

// A source or destination outside of Go comes by address.
static void copy_run(void *dst, uintptr_t address, const void *src, size_t size, bool large) {
  if (src == NULL) src = (const void *)address;
  if (large) xg_copy_large(dst, src, size);
  else memcpy(dst, src, size);
}

static void pack(char *dst, uintptr_t address, const char *src, bool transposed, bool large, size_t run,
                 size_t rank, const int64_t *dims, const int64_t *from, const int64_t *to) {
  if (src == NULL) src = (const char *)address;
  if (transposed) xg_pack_transposed(dst, src, run, rank, dims, from, to, large);
  else xg_pack(dst, src, run, rank, dims, from, to, large);
}
*/
import "C"

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Host describes an array in host memory. Exactly one of Bytes and Address is set.
type Host struct {
	Bytes   []byte
	Address uintptr
	Dtype   dtype.Dtype
	Dims    []int64
	// ByteStrides are per dimension; nil means dense and row-major. An upload takes positive ones only, Copy any.
	ByteStrides []int64
}

const (
	// copyAlone is the size up to which a copy stays on the caller's thread: waking another costs about as
	// much as copying this.
	copyAlone = 4 << 20
	// copyPastCaches is the size from which a copy would only drive everything else out of the caches.
	copyPastCaches = 64 << 20
	// copyThreads bounds the threads of one copy: a few of them use up a machine's memory bandwidth.
	copyThreads = 4
	// copyPieces is how many pieces each of them gets, so that a slow one does not hold up the rest.
	copyPieces = 4
)

// Uncleared gives n bytes of Go memory that hold anything, for what is written over as a whole.
// Go clears what make gives, which for a large value costs as much as writing it.
func Uncleared(n int64) []byte {
	if n == 0 {
		return []byte{}
	}
	var b strings.Builder // the one thing of the library that grows without clearing
	b.Grow(int(n))
	b.WriteByte(0)
	return unsafe.Slice(unsafe.StringData(b.String()), n)
}

// ReadAddress copies len(dst) bytes of memory that the CPU can read, on several threads where they are many.
func ReadAddress(address uintptr, dst []byte) {
	copyDense(dst, host{address: address})
}

// CopyAlone is ReadAddress by one memcpy on this thread, for measuring.
func CopyAlone(dst []byte, address uintptr) {
	if len(dst) > 0 {
		C.copy_run(unsafe.Pointer(&dst[0]), C.uintptr_t(address), nil, C.size_t(len(dst)), false)
	}
}

// Copy copies a host array, strided or not, into dst, dense and row-major and of exactly its size, on several
// threads where it is large. Strides may be zero or negative; with Bytes every element must lie inside. Neither
// may change meanwhile. BLOCKING for as long as the copy takes.
func Copy(dst []byte, source Host) error {
	item, n := source.Dtype.Size(), shape.Product(source.Dims)
	if int64(len(dst)) != n*item {
		return status.Errorf(status.InvalidArgument, "expected room for %d bytes, got %d", n*item, len(dst))
	}
	if n == 0 {
		return nil
	}
	strides := source.ByteStrides
	if strides == nil {
		strides = shape.RowMajorStrides(source.Dims)
		for i := range strides {
			strides[i] *= item
		}
	}
	if len(strides) != len(source.Dims) {
		return status.Errorf(status.InvalidArgument, "expected a stride for each of %d dimensions, got %d", len(source.Dims), len(strides))
	}
	if source.Bytes != nil {
		low, high := int64(0), item
		for i, d := range source.Dims {
			if reach := (d - 1) * strides[i]; reach < 0 {
				low += reach
			} else {
				high += reach
			}
		}
		if low < 0 || high > int64(len(source.Bytes)) {
			return status.Errorf(status.InvalidArgument, "expected strides %v to stay inside %d bytes, but they reach from %d to %d", strides, len(source.Bytes), low, high)
		}
	}
	src := host{bytes: source.Bytes, address: source.Address}
	p := planPack(item, source.Dims, strides)
	if len(p.dims) == 0 {
		copyDense(dst, src)
		return nil
	}
	p.copy(dst, src)
	return nil
}

// Pack copies a strided host array into a dense row-major one, as Copy does.
func Pack(source Host) ([]byte, error) {
	dst := Uncleared(shape.Product(source.Dims) * source.Dtype.Size())
	return dst, Copy(dst, source)
}

// host is a place in memory of Go or outside.
type host struct {
	bytes   []byte
	address uintptr
}

// at gives what C takes for the place offset bytes further.
func (h host) at(offset int64) (address C.uintptr_t, pointer unsafe.Pointer) {
	if h.bytes != nil {
		return 0, unsafe.Pointer(&h.bytes[offset])
	}
	return C.uintptr_t(h.address + uintptr(offset)), nil
}

func copyDense(dst []byte, src host) {
	const page = 4096 // pieces begin where pages do
	inPieces(int64(len(dst)), int64(len(dst)), page, func(start, end int64) {
		address, pointer := src.at(start)
		C.copy_run(unsafe.Pointer(&dst[start]), address, pointer, C.size_t(end-start), C.bool(len(dst) >= copyPastCaches))
	})
}

// packing is a copy of a strided array into a dense one, as xg_pack takes it.
type packing struct {
	run            int64
	dims, from, to []int64
	transposed     bool
}

// planPack joins dimensions that lie one behind the other in the source, so that few long runs are left.
func planPack(item int64, dims, strides []int64) *packing {
	p := &packing{run: item}
	to := item
	for i := len(dims) - 1; i >= 0; i-- {
		n, from := dims[i], strides[i]
		switch last := len(p.dims) - 1; {
		case n == 1:
		case last < 0 && from == p.run:
			p.run *= n
		case last >= 0 && from == p.from[last]*p.dims[last]:
			p.dims[last] *= n
		default:
			p.dims, p.from, p.to = append(p.dims, n), append(p.from, from), append(p.to, to)
		}
		to *= n
	}
	slices.Reverse(p.dims)
	slices.Reverse(p.from)
	slices.Reverse(p.to)
	p.transpose(item)
	return p
}

// transpose goes through the last dimension and the one that lies densest in the source in tiles, where these are
// two and an element is alone between its neighbours.
func (p *packing) transpose(item int64) {
	last := len(p.dims) - 1
	if last < 1 || p.run != item {
		return
	}
	closest := last
	for i, from := range p.from {
		if from != 0 && max(from, -from) < max(p.from[closest], -p.from[closest]) {
			closest = i
		}
	}
	if closest == last || p.from[last] == 0 {
		return
	}
	p.transposed = true
	for _, values := range []*[]int64{&p.dims, &p.from, &p.to} {
		v := (*values)[closest]
		*values = slices.Insert(slices.Delete(*values, closest, closest+1), last-1, v)
	}
}

// copy does it, in pieces of the longest dimension that may be cut.
func (p *packing) copy(dst []byte, src host) {
	along, end := 0, len(p.dims)
	if p.transposed {
		end-- // the destination's dense dimension would give short rows
	}
	for i := range end {
		if p.dims[i] > p.dims[along] {
			along = i
		}
	}
	const tile = 64 // no tile is cut: it has at most as many elements as bytes
	inPieces(int64(len(dst)), p.dims[along], tile, func(start, end int64) {
		dims := slices.Clone(p.dims)
		dims[along] = end - start
		address, pointer := src.at(start * p.from[along])
		C.pack((*C.char)(unsafe.Pointer(&dst[start*p.to[along]])), address, (*C.char)(pointer), C.bool(p.transposed), C.bool(len(dst) >= p.pastCaches()), C.size_t(p.run), C.size_t(len(dims)),
			(*C.int64_t)(unsafe.Pointer(&dims[0])), (*C.int64_t)(unsafe.Pointer(&p.from[0])), (*C.int64_t)(unsafe.Pointer(&p.to[0])))
	})
}

// pastCaches is the size from which a copy goes past the caches. One by tiles gains by it early: without, each line
// that it writes to would be read first.
func (p *packing) pastCaches() int {
	if p.transposed {
		return copyAlone
	}
	return copyPastCaches
}

// inPieces calls do for pieces of n, on several goroutines where the whole is of many bytes. Pieces begin at
// multiples of unit.
func inPieces(bytes, n, unit int64, do func(start, end int64)) {
	threads := int64(min(runtime.GOMAXPROCS(0), copyThreads))
	piece := (n/(threads*copyPieces) + unit) / unit * unit
	threads = min(threads, (n+piece-1)/piece)
	if bytes <= copyAlone || threads < 2 {
		if n > 0 {
			do(0, n)
		}
		return
	}
	var next atomic.Int64
	work := func() {
		for {
			start := next.Add(piece) - piece
			if start >= n {
				return
			}
			do(start, min(start+piece, n))
		}
	}
	var group sync.WaitGroup
	for range threads - 1 {
		group.Go(work)
	}
	work()
	group.Wait()
}
