package safetensors

import "strings"

// DType is the type of a tensor's values, by its name in files: "F32", "F8_E4M3".
type DType string

// The types of values that models' weights have.
const (
	F64     DType = "F64"
	F32     DType = "F32"
	F16     DType = "F16"
	BF16    DType = "BF16"
	F8E4M3  DType = "F8_E4M3"
	F8E5M2  DType = "F8_E5M2"
	F8E8M0  DType = "F8_E8M0"
	F4      DType = "F4"
	Bool    DType = "BOOL"
	U8      DType = "U8"
	I8      DType = "I8"
	U16     DType = "U16"
	I16     DType = "I16"
	U32     DType = "U32"
	I32     DType = "I32"
	U64     DType = "U64"
	I64     DType = "I64"
	C64     DType = "C64"
	f6E2M3  DType = "F6_E2M3"
	f6E3M2  DType = "F6_E3M2"
	f8E4M3Z DType = "F8_E4M3FNUZ"
	f8E5M2Z DType = "F8_E5M2FNUZ"
)

// dtypes lists every type of the format, and the bits of a value. The order is that of messages.
var dtypes = []struct {
	name DType
	bits uint64
}{
	{F64, 64}, {F32, 32}, {F16, 16}, {BF16, 16}, {F8E4M3, 8}, {F8E5M2, 8}, {F8E8M0, 8}, {f8E4M3Z, 8}, {f8E5M2Z, 8},
	{f6E2M3, 6}, {f6E3M2, 6}, {F4, 4}, {C64, 64}, {Bool, 8}, {U8, 8}, {I8, 8}, {U16, 16}, {I16, 16}, {U32, 32}, {I32, 32},
	{U64, 64}, {I64, 64},
}

// Bits returns the bits of a value, 0 if the type is not known.
func (d DType) Bits() int {
	for _, t := range dtypes {
		if t.name == d {
			return int(t.bits)
		}
	}
	return 0
}

// known lists all types, for messages.
func known() string {
	var names []string
	for _, t := range dtypes {
		names = append(names, string(t.name))
	}
	return strings.Join(names, ", ")
}
