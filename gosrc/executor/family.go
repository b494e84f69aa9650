package executor

import (
	"bytes"
	"hash/maphash"
	"slices"

	"xla_go/gosrc/ir"
)

// family is the programs that differ in nothing but the numbers that may be parameters.
type family struct {
	key        []byte
	numbers    []ir.Variable // of the first program
	varied     []bool        // which of them are parameters of executable; not changed, but replaced
	executable *executable   // nil until a second program came
}

// family finds the family of a key, or founds it with numbers. Both are copied where they are kept.
func (p *programCache) family(key []byte, numbers []ir.Variable) *family {
	h := maphash.Bytes(p.seed, key)
	for _, f := range p.families[h] {
		if bytes.Equal(f.key, key) {
			return f
		}
	}
	f := &family{key: bytes.Clone(key), numbers: slices.Clone(numbers), varied: make([]bool, len(numbers))}
	p.families[h] = append(p.families[h], f)
	return f
}

// differs is true where numbers are not those of the family's first program.
func (f *family) differs(numbers []ir.Variable) bool { return !slices.Equal(numbers, f.numbers) }

// serves is true where the family's varied program can take numbers.
func (f *family) serves(numbers []ir.Variable) bool {
	for i, n := range numbers {
		if n != f.numbers[i] && !f.varied[i] {
			return false
		}
	}
	return f.executable != nil
}

// widen makes parameters of all numbers that differ from those of the first program. Where that has been done before,
// and a number that was alike has come out as another one all the same, every integer becomes a parameter: a family of
// integers has three programs at most, however many there are. A float stays as it is until it differs, since it may
// choose faster code (a square is no power).
func (f *family) widen(numbers []ir.Variable) {
	again := f.executable != nil && !f.serves(numbers)
	varied := slices.Clone(f.varied)
	for i, n := range numbers {
		varied[i] = varied[i] || n != f.numbers[i] || again && !n.IsFloat
	}
	f.varied = varied
}
