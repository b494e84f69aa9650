package pjrt

// #include "abi_table.h"
import "C"

// knownMinor is the newest minor version whose layout is declared here.
const knownMinor = C.PJRT_KNOWN_MINOR

// abiRow is a field's place in its struct; of a whole struct (Field "-") Offset is the size to send.
type abiRow struct {
	Struct, Field string
	Offset, Size  int
}

// abiTable is the layout that this package was built with.
func abiTable() []abiRow {
	rows := make([]abiRow, C.xg_abi_rows())
	for i := range rows {
		var owner, field *C.char
		var offset, size C.size_t
		C.xg_abi_row(C.size_t(i), &owner, &field, &offset, &size)
		rows[i] = abiRow{C.GoString(owner), C.GoString(field), int(offset), int(size)}
		if rows[i].Field == "" {
			rows[i].Field = "-"
		}
	}
	return rows
}
