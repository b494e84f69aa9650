package executor

import (
	"slices"

	"xla_go/gosrc/ir"
)

// Abandon forgets what is pending on the device, and gives how many roots it was for: those that it would have overwritten hold what
// they held before, others a value that is never computed, so that reading them is an error. Under Core.Mu, with all shardings known
// (LockResolved).
func (d *Device) Abandon() (roots int, err error) {
	for d.head != nil {
		r := d.head
		if r.base != nil {
			r.Set(r.base)
		} else {
			data, err := d.core.client.CreateDataPlaceholder(d.Name(), ir.ShapeOf(r.value), nil)
			if err != nil {
				return roots, err
			}
			leaf, err := d.core.Leaf(data, r.value.Dtype, slices.Clone(r.value.Dims))
			if err != nil {
				return roots, err
			}
			r.Set(leaf)
		}
		roots++
	}
	d.madeSinceCut = 0
	return roots, nil
}
