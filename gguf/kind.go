package gguf

import "fmt"

// kind is a metadata value's type id.
type kind uint32

const (
	kindUint8 kind = iota
	kindInt8
	kindUint16
	kindInt16
	kindUint32
	kindInt32
	kindFloat32
	kindBool
	kindString
	kindArray
	kindUint64
	kindInt64
	kindFloat64
	kindNone kind = 1<<32 - 1 // not in files: a Go value without a GGUF type
)

// kinds gives each kind its name and the fewest bytes that one value can take in a file.
var kinds = [...]struct {
	name  string
	bytes int
}{
	kindUint8:   {"uint8", 1},
	kindInt8:    {"int8", 1},
	kindUint16:  {"uint16", 2},
	kindInt16:   {"int16", 2},
	kindUint32:  {"uint32", 4},
	kindInt32:   {"int32", 4},
	kindFloat32: {"float32", 4},
	kindBool:    {"bool", 1},
	kindString:  {"string", 8},
	kindArray:   {"array", 12},
	kindUint64:  {"uint64", 8},
	kindInt64:   {"int64", 8},
	kindFloat64: {"float64", 8},
}

func (k kind) String() string {
	if int64(k) >= int64(len(kinds)) {
		return fmt.Sprintf("value type %d", uint32(k))
	}
	return kinds[k].name
}

// kindOf returns a Go value's kind and -1, or for a slice the kind of its elements and their number; kindNone if no file
// can hold it.
func kindOf(v any) (k kind, elements int) {
	switch v := v.(type) {
	case uint8:
		return kindUint8, -1
	case int8:
		return kindInt8, -1
	case uint16:
		return kindUint16, -1
	case int16:
		return kindInt16, -1
	case uint32:
		return kindUint32, -1
	case int32:
		return kindInt32, -1
	case float32:
		return kindFloat32, -1
	case bool:
		return kindBool, -1
	case string:
		return kindString, -1
	case uint64:
		return kindUint64, -1
	case int64:
		return kindInt64, -1
	case float64:
		return kindFloat64, -1
	case []uint8:
		return kindUint8, len(v)
	case []int8:
		return kindInt8, len(v)
	case []uint16:
		return kindUint16, len(v)
	case []int16:
		return kindInt16, len(v)
	case []uint32:
		return kindUint32, len(v)
	case []int32:
		return kindInt32, len(v)
	case []float32:
		return kindFloat32, len(v)
	case []bool:
		return kindBool, len(v)
	case []string:
		return kindString, len(v)
	case []uint64:
		return kindUint64, len(v)
	case []int64:
		return kindInt64, len(v)
	case []float64:
		return kindFloat64, len(v)
	case []any:
		return kindArray, len(v)
	}
	return kindNone, -1
}
