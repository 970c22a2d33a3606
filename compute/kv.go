package compute

import "fmt"

// Page is how many positions a page of the KV cache holds. Everything that is cut is cut at its multiples (R3).
const Page = 64

// KVFormat is how keys and values are stored.
type KVFormat int

const (
	KVF16  KVFormat = iota // IEEE half: the default
	KVF32                  // float32: for comparison with references
	KVQ8                   // bytes with an f16 scale for each 32 of a head: half the memory, on GPUs
	KVE4M3                 // 8-bit floats of 4 exponent bits, at most 448: half the memory, on GPUs
)

// kvNames are the formats' names as flags have them.
var kvNames = [...]string{KVF16: "f16", KVF32: "f32", KVQ8: "q8_0", KVE4M3: "fp8"}

// String names the format as flags do.
func (f KVFormat) String() string { return kvNames[f] }

// KVFormatOf is the opposite of String. "" is f16.
func KVFormatOf(name string) (KVFormat, error) {
	if name == "" {
		return KVF16, nil
	}
	for f, n := range kvNames {
		if n == name {
			return KVFormat(f), nil
		}
	}
	return 0, fmt.Errorf("compute: KV cache in %q, want one of %q", name, kvNames)
}

// RowBytes is the size of n stored values of one head and position.
func (f KVFormat) RowBytes(n int) int {
	switch f {
	case KVF32:
		return 4 * n
	case KVQ8:
		return n + (n+31)/32*2
	case KVE4M3:
		return n
	}
	return 2 * n
}

// KVShape is the shape of layers that share a page table: same heads, same window.
type KVShape struct {
	Layers, Heads, HeadDim int
	Format                 KVFormat
}

// PageBytes is the exact size of one page, over all layers of the shape: keys and values of [Page] positions.
func (s KVShape) PageBytes() int {
	return s.Layers * s.Heads * Page * 2 * s.Format.RowBytes(s.HeadDim)
}

// PageMemory is pages on a device.
type PageMemory interface {
	// Pages is how many there are.
	Pages() int
	// Copy copies page src to page dst, in all layers (a fork writes to its own copy of a shared, unfilled page).
	Copy(dst, src int)
	// Read copies a page's bytes to data, which is as long as a page. They mean what they do to memory of the same shape on a device of
	// the same class, nothing elsewhere.
	Read(page int, data []byte) error
	// Write makes a page of the bytes that Read gave.
	Write(page int, data []byte) error
	// Close frees the memory.
	Close() error
}

// CheckPage reports a page that a memory does not have, or data that is no page of so many bytes.
func CheckPage(m PageMemory, page int, data []byte, bytes int) error {
	if page < 0 || page >= m.Pages() || len(data) != bytes {
		return fmt.Errorf("compute: page %d of %d, with %d bytes, want %d", page, m.Pages(), len(data), bytes)
	}
	return nil
}

// KVMemory is the pages of one shape on a device.
type KVMemory interface {
	PageMemory
	Shape() KVShape
}

// KV is one layer of the cache, as the operations of a step see it.
type KV struct {
	Memory KVMemory
	Layer  int       // within Memory's shape
	Tables [][]int32 // for each slot: the page that holds positions 64i to 64i+63; -1 where it was freed
}
