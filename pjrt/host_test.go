package pjrt

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// packSlowly copies element by element.
func packSlowly(source []byte, item int64, dims, strides []int64) []byte {
	var dst []byte
	var walk func(offset int64, dims, strides []int64)
	walk = func(offset int64, dims, strides []int64) {
		if len(dims) == 0 {
			dst = append(dst, source[offset:offset+item]...)
			return
		}
		for i := range dims[0] {
			walk(offset+i*strides[0], dims[1:], strides[1:])
		}
	}
	walk(0, dims, strides)
	return dst
}

// Arrays of every element size, with their dimensions permuted, thinned out, repeated or left whole, on one thread
// and on several.
func TestCopyOfStrides(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 400 {
		d := []dtype.Dtype{dtype.U8, dtype.F16, dtype.F32, dtype.F64, dtype.C128}[random.IntN(5)]
		item := d.Size()
		rank := 1 + random.IntN(4)
		most := int64(9)
		if rank <= 2 {
			most = 400
		}
		if round%40 == 0 {
			rank, most = 2, 3000 // enough for threads
		}
		whole := make([]int64, rank) // a dense array, and a view of it
		for i := range whole {
			whole[i] = 1 + random.Int64N(most)
		}
		dims, strides := slices.Clone(whole), shape.RowMajorStrides(whole)
		for i := range strides {
			strides[i] *= item
			switch random.IntN(4) {
			case 0:
				dims[i], strides[i] = (dims[i]+1)/2, strides[i]*2
			case 1:
				dims[i] = (dims[i] + 1) / 2
			}
			if random.IntN(8) == 0 {
				strides[i] = 0
			}
		}
		random.Shuffle(rank, func(i, j int) {
			dims[i], dims[j] = dims[j], dims[i]
			strides[i], strides[j] = strides[j], strides[i]
		})
		source := make([]byte, shape.Product(whole)*item)
		for i := range source {
			source[i] = byte(random.Uint32())
		}
		got, err := Pack(Host{Bytes: source, Dtype: d, Dims: dims, ByteStrides: strides})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, packSlowly(source, item, dims, strides)) {
			t.Fatalf("%s%v of %v with strides %v differs", d, dims, whole, strides)
		}
	}
}

// Memory by address may be gone through backwards.
func TestCopyBackwards(t *testing.T) {
	m, err := NewHostMemory(24)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	copy(m.Bytes, bytesTo(24))
	got := make([]byte, 12)
	if err := Copy(got, Host{Address: m.Address() + 20, Dtype: dtype.S32, Dims: []int64{3}, ByteStrides: []int64{-8}}); err != nil {
		t.Fatal(err)
	}
	if want := []byte{20, 21, 22, 23, 12, 13, 14, 15, 4, 5, 6, 7}; !bytes.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	err = Copy(got[:11], Host{Address: m.Address(), Dtype: dtype.S32, Dims: []int64{3}})
	if status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("a copy to too little memory: %v", err)
	}
}

// Every byte of a large copy arrives, whatever the number of pieces and the alignment.
func TestCopyOnSeveralThreads(t *testing.T) {
	for _, size := range []int{3*copyAlone + 4097, copyPastCaches + 4097} {
		source := make([]byte, size)
		for i := range source {
			source[i] = byte(i ^ i>>8 ^ i>>16)
		}
		whole := Uncleared(int64(size))
		for _, cut := range []int{0, 1, 4095} {
			from, to := source[cut:], whole[cut/2:][:size-cut]
			if err := Copy(to, Host{Bytes: from, Dtype: dtype.U8, Dims: []int64{int64(len(from))}}); err != nil || !bytes.Equal(to, from) {
				t.Errorf("a copy of %d bytes from byte %d on differs (%v)", size, cut, err)
			}
		}
	}
}

// Rows of a large array, of lengths that fill pages, lines or nothing.
func TestCopyOfManyRows(t *testing.T) {
	for _, run := range []int64{500, 1003, 4*4096 + 65, 5 << 14} {
		rows := int64(copyPastCaches)/run + 2
		source := make([]byte, rows*(run+7))
		for i := range source {
			source[i] = byte(i ^ i>>8 ^ i>>16)
		}
		dst := Uncleared(rows * run)
		if err := Copy(dst, Host{Bytes: source, Dtype: dtype.U8, Dims: []int64{rows, run}, ByteStrides: []int64{run + 7, 1}}); err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			if !bytes.Equal(dst[i*run:][:run], source[i*(run+7):][:run]) {
				t.Fatalf("rows of %d bytes: row %d differs", run, i)
			}
		}
	}
}

// A transposed array of more than the caches hold, with edges that fill no tile, to memory that is aligned or not.
func TestCopyOfALargeTransposed(t *testing.T) {
	const rows, columns = 1500, 1102
	source := make([]byte, 4*rows*columns)
	for i := range source {
		source[i] = byte(i ^ i>>8 ^ i>>16)
	}
	strides := []int64{4, 4 * columns}
	want := packSlowly(source, 4, []int64{columns, rows}, strides)
	for offset := range 3 {
		m, err := NewHostMemory(int64(len(want) + 32))
		if err != nil {
			t.Fatal(err)
		}
		dst := m.Bytes[16*offset/2:][:len(want)]
		if err := Copy(dst, Host{Bytes: source, Dtype: dtype.F32, Dims: []int64{columns, rows}, ByteStrides: strides}); err != nil || !bytes.Equal(dst, want) {
			t.Errorf("at offset %d it differs (%v)", 16*offset/2, err)
		}
		m.Free()
	}
}

func TestHostMemory(t *testing.T) {
	before := LiveHostMemory()
	for _, size := range []int64{1, hostPage + 1, hugePage, 3*hugePage + 1} {
		m, err := NewHostMemory(size)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(m.Bytes)) < size || m.Address()%64 != 0 || size >= hugePage && m.Address()%hugePage != 0 {
			t.Errorf("%d bytes: got %d at %#x", size, len(m.Bytes), m.Address())
		}
		m.Bytes[0], m.Bytes[len(m.Bytes)-1] = 1, 2
		if LiveHostMemory() != before+int64(len(m.Bytes)) {
			t.Errorf("%d bytes live, want %d", LiveHostMemory(), before+int64(len(m.Bytes)))
		}
		m.Free()
		m.Free()
	}
	if LiveHostMemory() != before {
		t.Errorf("%d bytes live after the end", LiveHostMemory()-before)
	}
	if _, err := NewHostMemory(1 << 60); status.CodeOf(err) != status.ResourceExhausted {
		t.Errorf("2^60 bytes: %v", err)
	}
}

func BenchmarkCopy(b *testing.B) {
	const n = 8192
	source, err := NewHostMemory(4*n*n + 64)
	if err != nil {
		b.Fatal(err)
	}
	defer source.Free()
	clear(source.Bytes)
	for _, test := range []struct {
		name          string
		dims, strides []int64
		offset        uintptr
	}{
		{"dense", []int64{n, n}, nil, 0},
		{"unaligned", []int64{n, n}, nil, 4},
		{"transposed", []int64{n, n}, []int64{4, 4 * n}, 0},
		{"columns", []int64{n, n / 2}, []int64{4 * n, 4}, 0},
		{"every-other", []int64{n, n / 2}, []int64{4 * n, 8}, 0},
		{"swapped-heads", []int64{64, n, 128}, []int64{512, 4 * n, 4}, 0},
	} {
		for _, d := range []dtype.Dtype{dtype.F32} {
			size := shape.Product(test.dims) * d.Size()
			dst, err := NewHostMemory(size)
			if err != nil {
				b.Fatal(err)
			}
			clear(dst.Bytes)
			b.Run(fmt.Sprintf("%s/%s", test.name, d), func(b *testing.B) {
				b.SetBytes(size)
				for b.Loop() {
					if err := Copy(dst.Bytes[:size], Host{Address: source.Address() + test.offset, Dtype: d, Dims: test.dims, ByteStrides: test.strides}); err != nil {
						b.Fatal(err)
					}
				}
			})
			dst.Free()
		}
	}
}
