package disk

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"memra/compute"
)

// Key names a prefix, with all that its pages depend on.
type Key [sha256.Size]byte

// Root is the key of no tokens, of things that pages depend on.
func Root(parts ...string) Key {
	h := sha256.New()
	for _, part := range parts {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(part))))
		io.WriteString(h, part)
	}
	return Key(h.Sum(nil))
}

// Next is the key of a prefix and the tokens of a page, or of a part of one, after it.
func (k Key) Next(tokens []int32) Key {
	data := append(make([]byte, 0, len(k)+4*compute.Page), k[:]...)
	for _, token := range tokens {
		data = binary.LittleEndian.AppendUint32(data, uint32(token))
	}
	return sha256.Sum256(data)
}

const (
	magic     = "memrapge"
	version   = 1
	headBytes = len(magic) + 4 + 4 + len(Key{}) + 8
	sumBytes  = sha256.Size
	suffix    = ".page"
)

// name is the file's of a page.
func name(key Key, kind int) string {
	return hex.EncodeToString(key[:]) + "." + strconv.Itoa(kind) + suffix
}

// named reports whether a file is called as pages are.
func named(name string) bool {
	stem, ok := strings.CutSuffix(name, suffix)
	digits, kind, dot := strings.Cut(stem, ".")
	_, err := hex.DecodeString(digits)
	n, bad := strconv.Atoi(kind)
	return ok && dot && err == nil && len(digits) == 2*len(Key{}) && bad == nil && n >= 0
}

// head is what stands before a page's bytes.
func head(key Key, kind, bytes int) []byte {
	h := append(make([]byte, 0, headBytes), magic...)
	h = binary.LittleEndian.AppendUint32(h, version)
	h = binary.LittleEndian.AppendUint32(h, uint32(kind))
	h = append(h, key[:]...)
	return binary.LittleEndian.AppendUint64(h, uint64(bytes))
}

// encode writes a page's file.
func encode(w io.Writer, key Key, kind int, data []byte) error {
	sum := sha256.New()
	both := io.MultiWriter(w, sum)
	for _, part := range [][]byte{head(key, kind, len(data)), data} {
		if _, err := both.Write(part); err != nil {
			return err
		}
	}
	_, err := w.Write(sum.Sum(nil))
	return err
}

// decode is the page in a file's bytes, which must be the page that is looked for.
func decode(file []byte, key Key, kind, size int) ([]byte, error) {
	want := head(key, kind, size)
	if len(file) != len(want)+size+sumBytes {
		return nil, fmt.Errorf("%d bytes, want %d: it was cut off, or is of another model", len(file), len(want)+size+sumBytes)
	}
	if !bytes.HasPrefix(file, []byte(magic)) {
		return nil, fmt.Errorf("it begins with %q, want %q: it is no page", file[:len(magic)], magic)
	}
	if v := binary.LittleEndian.Uint32(file[len(magic):]); v != version {
		return nil, fmt.Errorf("version %d, want %d", v, version)
	}
	if !bytes.HasPrefix(file, want) {
		return nil, fmt.Errorf("it says that it is another page than its name")
	}
	end := len(file) - sumBytes
	if sum := sha256.Sum256(file[:end]); !bytes.Equal(sum[:], file[end:]) {
		return nil, fmt.Errorf("its checksum does not fit: it has been changed, or the disk is failing")
	}
	return file[len(want):end:end], nil
}

// read reads a page's file. It takes no more memory than such a page has, whatever the file says.
func read(path string, key Key, kind, size int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	file := make([]byte, headBytes+size+sumBytes+1) // one more, to see that there is none
	n, err := io.ReadFull(f, file)
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return nil, err
	}
	return decode(file[:n], key, kind, size)
}
