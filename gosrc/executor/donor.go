package executor

import (
	"slices"

	"xla_go/gosrc/ir"
)

// donors are the parameters of a walked graph whose memory its step may reuse, each list sorted by parameter.
type donors struct {
	// allowed are those that nobody can reach after the step. A known program may reuse their memory, and only theirs.
	allowed []ir.Donation
	// wanted are those of allowed that a new program is compiled for: what this graph overwrites, and what was asked for.
	wanted []ir.Donation
	// requested are those of wanted that Buffer.RequestDonation has asked for.
	requested []ir.Donation
}

// collect lists the step's arguments, and gives the parameters whose memory the step may reuse, each with the output
// that overwrites it where there is one.
//
// A parameter is allowed iff nobody can reach it but this graph and the storages that the graph overwrites (whose base
// it is): its reference count equals the edges that the walk saw plus the roots that it is the base of. A
// request adds nothing to that: it only says which of those without an output are worth a donation.
func (d *Device) collect(order []*ir.Node, s *step) (found donors) {
	graph := &d.core.Graph
	type overwritten struct{ count, output int }
	bases := make(map[*ir.Node]overwritten, len(s.roots))
	for i, r := range s.roots {
		if r.base != nil && graph.Visited(r.base) {
			bases[r.base] = overwritten{bases[r.base].count + 1, i}
		}
	}
	isPartitioned := d.partitioning.Load() != nil
	for _, n := range order {
		if n.Kind != ir.KindParameter {
			continue
		}
		if b := bases[n]; int(n.References()) == int(n.Edges())+b.count && !n.IsTemporary() && d.core.options.Donate {
			donor := ir.Donation{Parameter: len(s.arguments), Output: b.output}
			if b.count == 0 || isPartitioned {
				donor.Output = -1 // the compiler finds the output: one that lies otherwise has another size
			}
			requested := n.Buffer.DonationRequested()
			found.allowed = append(found.allowed, donor)
			if b.count > 0 || requested {
				found.wanted = append(found.wanted, donor)
			}
			if requested {
				found.requested = append(found.requested, donor)
			}
		}
		n.Buffer.Retain()
		s.arguments = append(s.arguments, n.Buffer)
	}
	return found
}

// countMissing gives the number of donors whose parameter is not among others, which are sorted.
func countMissing(donors, others []ir.Donation) int {
	n := 0
	for _, d := range donors {
		if !isAllowed(d, others) {
			n++
		}
	}
	return n
}

// isAllowed looks for the donor's parameter; allowed is sorted by it.
func isAllowed(d ir.Donation, allowed []ir.Donation) bool {
	_, ok := slices.BinarySearchFunc(allowed, d.Parameter, func(a ir.Donation, parameter int) int { return a.Parameter - parameter })
	return ok
}
