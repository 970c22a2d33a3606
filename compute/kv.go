package compute

// Page is how many positions a page of the KV cache holds. Everything that is cut is cut at its multiples (R3).
const Page = 64

// KVFormat is how keys and values are stored.
type KVFormat int

const (
	KVF16 KVFormat = iota // IEEE half: the default
	KVF32                 // float32: for comparison with references
)

// String names the format as flags do.
func (f KVFormat) String() string {
	if f == KVF32 {
		return "f32"
	}
	return "f16"
}

// Bytes is the size of one stored value.
func (f KVFormat) Bytes() int {
	if f == KVF32 {
		return 4
	}
	return 2
}

// KVShape is the shape of layers that share a page table: same heads, same window.
type KVShape struct {
	Layers, Heads, HeadDim int
	Format                 KVFormat
}

// PageBytes is the exact size of one page, over all layers of the shape: keys and values of [Page] positions.
func (s KVShape) PageBytes() int {
	return s.Layers * s.Heads * s.HeadDim * Page * 2 * s.Format.Bytes()
}

// KVMemory is the pages of one shape on a device.
type KVMemory interface {
	// Shape and Pages are what the memory was made for.
	Shape() KVShape
	Pages() int
	// Copy copies page src to page dst, in all layers (a fork writes to its own copy of a shared, unfilled page).
	Copy(dst, src int)
	// Close frees the memory.
	Close() error
}

// KV is one layer of the cache, as the operations of a step see it.
type KV struct {
	Memory KVMemory
	Layer  int       // within Memory's shape
	Tables [][]int32 // for each slot: the page that holds positions 64i to 64i+63; -1 where it was freed
}
