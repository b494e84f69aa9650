package hlo

import "cmp"

// Frame is a place in a program's source: a line of a file, in a function.
type Frame struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
	Function string `json:"function"`
}

// SetMetadata attaches the op's type, its name and the stack that made it (the innermost frame first) to the
// instructions that follow, until it is called again; without arguments but empty ones it ends that.
//
// The innermost frame is the source line of each instruction; the whole stack stands in the module's index of frames,
// where stacks share what they have in common.
func (b *Builder) SetMetadata(opType, opName string, stack ...Frame) {
	e := encoder{buf: b.metadata[:0]}
	e.text(1, opType)
	e.text(2, opName)
	if len(stack) > 0 {
		e.text(3, stack[0].File)
		e.varint(4, int64(stack[0].Line))
		e.varint(15, b.module.sources.stack(stack))
	}
	b.metadata = e.buf
}

// sourceIndex is a StackFrameIndexProto on its way: lists without repetitions, whose members name each other by their
// positions, from 1 on.
type sourceIndex struct {
	files, functions numbering[string]
	locations        numbering[sourceLocation]
	frames           numbering[sourceFrame]
}

type sourceLocation struct{ file, function, line int64 }

type sourceFrame struct{ location, parent int64 }

type numbering[T comparable] struct {
	numbers map[T]int64
	list    []T
}

func (n *numbering[T]) number(v T) int64 {
	if known := n.numbers[v]; known != 0 {
		return known
	}
	if n.numbers == nil {
		n.numbers = map[T]int64{}
	}
	n.list = append(n.list, v)
	n.numbers[v] = int64(len(n.list))
	return n.numbers[v]
}

// stack gives the number of the innermost frame.
func (s *sourceIndex) stack(frames []Frame) int64 {
	parent := int64(0)
	for i := len(frames) - 1; i >= 0; i-- {
		f := frames[i]
		// An empty name is not written, and would shift the numbers of those after it.
		file, function := cmp.Or(f.File, "?"), cmp.Or(f.Function, "?")
		location := s.locations.number(sourceLocation{s.files.number(file), s.functions.number(function), int64(f.Line)})
		parent = s.frames.number(sourceFrame{location, parent})
	}
	return parent
}

// append writes the index as the module's field, where there is anything in it.
func (s *sourceIndex) append(e *encoder) {
	if len(s.frames.list) == 0 {
		return
	}
	index := e.open(17)
	for _, name := range s.files.list {
		e.text(1, name)
	}
	for _, name := range s.functions.list {
		e.text(2, name)
	}
	for _, l := range s.locations.list {
		at := e.open(3)
		e.varint(1, l.file)
		e.varint(2, l.function)
		e.varint(3, l.line)
		e.close(at)
	}
	for _, f := range s.frames.list {
		at := e.open(4)
		e.varint(1, f.location)
		e.varint(2, f.parent)
		e.close(at)
	}
	e.close(index)
}
