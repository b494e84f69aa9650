package ops

import (
	"fmt"
	"hash/fnv"
)

// NamesDigest identifies the table of Names. The adapter is built with one and compares it with
// the runtime's: with another table every number would mean another operator.
func NamesDigest() uint64 {
	h := fnv.New64a()
	for _, n := range Names() {
		fmt.Fprintf(h, "%d %s %t %t\n", n.Number, n.Name, n.InPlace, n.Out)
	}
	return h.Sum64()
}
