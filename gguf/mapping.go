package gguf

import (
	"fmt"
	"os"
)

// mapping is a file's bytes in memory. How they get there, and what release can do, depends on the system.
type mapping struct {
	data []byte
}

// openMapping maps a regular file.
func openMapping(path string) (*mapping, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	switch size := info.Size(); {
	case info.IsDir():
		return nil, fmt.Errorf("gguf: %s: is a folder, want a file; name the .gguf file in it", path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("gguf: %s: is a %s, want a regular file, which can be mapped", path, info.Mode().Type())
	case size == 0:
		return nil, fmt.Errorf("gguf: %s: is empty; download it again", path)
	case int64(int(size)) != size:
		return nil, fmt.Errorf("gguf: %s: has %d bytes, more than this machine can address", path, size)
	default:
		return mapFile(file, int(size))
	}
}
