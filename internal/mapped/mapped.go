// Package mapped opens files as bytes in memory, mapped where the system has mappings that we use, read elsewhere.
package mapped

import (
	"fmt"
	"os"
)

// File is a file's bytes. How they get there, and what Release can do, depends on the system.
type File struct {
	Data []byte // never to be written to; nil once closed
}

// Open maps a regular file that is not empty; what says what should be there, for messages ("the .gguf file"). The file must
// not be cut short while it is open.
func Open(path, what string) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	switch size := info.Size(); {
	case info.IsDir():
		return nil, fmt.Errorf("%s: is a folder, want a file; name %s in it", path, what)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: is a %s, want a regular file, which can be mapped", path, info.Mode().Type())
	case size == 0:
		return nil, fmt.Errorf("%s: is empty; download it again", path)
	case int64(int(size)) != size:
		return nil, fmt.Errorf("%s: has %d bytes, more than this machine can address", path, size)
	default:
		return open(file, int(size))
	}
}
