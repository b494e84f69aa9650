package executor

import (
	"iter"
	"slices"

	"xla_go/gosrc/ir"
)

// donors are the parameters of a walked graph whose memory its step may reuse, each list sorted by parameter. The lists
// are valid until the core's next cut.
type donors struct {
	// allowed are those that nobody can reach after the step. A known program may reuse their memory, and only theirs.
	allowed []ir.Donation
	// wanted are those of allowed that a new program is compiled for: what this graph overwrites, and what was asked for.
	wanted []ir.Donation
	// requested are those of wanted that Buffer.RequestDonation has asked for.
	requested []ir.Donation
	// givenUp are the parameters of requested that storages hold beyond the step, and lose to it: see Buffer.GiveUp.
	givenUp []int
}

// collect lists the step's arguments, and gives the parameters whose memory the step may reuse, each with the output
// that overwrites it where there is one.
//
// A parameter is allowed iff nobody can reach it but this graph and the storages that the graph overwrites (whose base
// it is): its reference count equals the edges that the walk saw plus the roots that it is the base of. A
// request adds nothing to that: it only says which of those without an output are worth a donation. One that was given up is
// allowed whatever storages hold it, but not where something that stays pending reads it; staying are those values.
func (d *Device) collect(walk *ir.Walk, s *step, staying []*ir.Node) (found donors) {
	graph := &d.core.Graph
	last := &d.core.donorScratch
	found = donors{last.allowed[:0], last.wanted[:0], last.requested[:0], last.givenUp[:0]}
	defer func() { *last = found }()
	s.arguments = make([]*ir.Buffer, 0, len(walk.Parameters))
	for i, r := range s.roots {
		if r.base != nil {
			graph.NoteBase(r.base, i)
		}
	}
	isPartitioned := d.partitioning.Load() != nil
	for _, n := range walk.Parameters {
		bases, output := n.Bases()
		held := int(n.References()) != int(n.Edges())+bases
		givenUp := held && n.Buffer.IsGivenUp() && !reads(staying, n.Buffer)
		if (!held || givenUp) && !n.IsTemporary() && d.core.options.Donate {
			donor := ir.Donation{Parameter: len(s.arguments), Output: output}
			if bases == 0 || isPartitioned {
				donor.Output = -1 // the compiler finds the output: one that lies otherwise has another size
			}
			requested := n.Buffer.DonationRequested()
			found.allowed = append(found.allowed, donor)
			if bases > 0 || requested {
				found.wanted = append(found.wanted, donor)
			}
			if requested {
				found.requested = append(found.requested, donor)
			}
			if givenUp {
				found.givenUp = append(found.givenUp, donor.Parameter)
			}
		}
		n.Buffer.Retain()
		s.arguments = append(s.arguments, n.Buffer)
	}
	return found
}

// missing gives the parameters of those donors that are not among others. Both are sorted by parameter.
func missing(donors, others []ir.Donation) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, d := range donors {
			for len(others) > 0 && others[0].Parameter < d.Parameter {
				others = others[1:]
			}
			if len(others) > 0 && others[0].Parameter == d.Parameter {
				continue
			}
			if !yield(d.Parameter) {
				return
			}
		}
	}
}

// countMissing gives the number of those donors that are not among others. Both are sorted by parameter.
func countMissing(donors, others []ir.Donation) int {
	n := 0
	for range missing(donors, others) {
		n++
	}
	return n
}

func hasDonor(donors []ir.Donation, parameter int) bool {
	return slices.ContainsFunc(donors, func(d ir.Donation) bool { return d.Parameter == parameter })
}

// reads is true where a value below those is the one of b.
func reads(values []*ir.Node, b *ir.Buffer) bool {
	seen := map[*ir.Node]bool{}
	for stack := slices.Clone(values); len(stack) > 0; {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[n] {
			continue
		}
		seen[n] = true
		if n.Buffer == b {
			return true
		}
		stack = append(stack, n.Operands...)
	}
	return false
}

// givenAway is a value that a step takes from the storages that hold it.
type givenAway struct {
	leaf         *ir.Node // retained
	buffer, lost *ir.Buffer
}

// giveAway takes a step's parameter, the value of leaf, from whoever holds it. Under Core.Mu.
func (s *step) giveAway(leaf *ir.Node) {
	g := givenAway{leaf, leaf.Buffer, leaf.Buffer.NewGivenAway()}
	s.device.core.Graph.Retain(leaf)
	leaf.Buffer = g.lost // which the leaf owns now, as the step does the other
	s.givenAway = append(s.givenAway, g)
}

// giveBack undoes giveAway after a step that was not launched. Under Core.Mu.
func (s *step) giveBack() {
	for i := range s.givenAway {
		g := &s.givenAway[i]
		g.leaf.Buffer, g.buffer = g.buffer, g.lost // release lets go of the other one
	}
}

// releaseGivenAway lets go of what giveAway holds. Without Core.Mu.
func (s *step) releaseGivenAway() {
	leaves := make([]*ir.Node, len(s.givenAway))
	for i, g := range s.givenAway {
		leaves[i] = g.leaf
		g.buffer.Release()
	}
	s.givenAway = nil
	s.device.core.Mu.release(leaves)
}
