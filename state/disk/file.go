package disk

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

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

// Page is a page's place: a kind of layers' page of up to 64 tokens, which follow a prefix.
type Page struct {
	Parent Key // of the prefix
	Tokens []int32
	Kind   int
}

const (
	magic     = "memrapge"
	version   = 1
	headBytes = len(magic) + 4 + 4 + len(Key{}) + 4 + 4*compute.Page + 8
	sumBytes  = sha256.Size
	suffix    = ".page"
)

// id is a page as its file is called: by the prefix before it, the prefix with it, and the kind.
type id struct {
	parent, key Key
	kind        int
}

func (p Page) id() id { return id{p.Parent, p.Parent.Next(p.Tokens), p.Kind} }

// name is the page's file's.
func (i id) name() string {
	return hex.EncodeToString(i.parent[:]) + "-" + hex.EncodeToString(i.key[:]) + "." + strconv.Itoa(i.kind) + suffix
}

// named is the page whose file has a name; false: no page has.
func named(name string) (i id, ok bool) {
	var parent, key []byte
	n, err := fmt.Sscanf(name, "%64x-%64x.%d"+suffix, &parent, &key, &i.kind)
	if err != nil || n != 3 || len(parent) != len(i.parent) || len(key) != len(i.key) {
		return i, false
	}
	i.parent, i.key = Key(parent), Key(key)
	return i, i.kind >= 0 && i.name() == name
}

// head is what stands before the bytes of a page.
func (p Page) head(bytes int) []byte {
	h := append(make([]byte, 0, headBytes), magic...)
	h = binary.LittleEndian.AppendUint32(h, version)
	h = binary.LittleEndian.AppendUint32(h, uint32(p.Kind))
	h = append(h, p.Parent[:]...)
	h = binary.LittleEndian.AppendUint32(h, uint32(len(p.Tokens)))
	for i := range compute.Page {
		token := int32(0)
		if i < len(p.Tokens) {
			token = p.Tokens[i]
		}
		h = binary.LittleEndian.AppendUint32(h, uint32(token))
	}
	return binary.LittleEndian.AppendUint64(h, uint64(bytes))
}

// encode writes a page's file.
func encode(w io.Writer, p Page, data []byte) error {
	sum := sha256.New()
	both := io.MultiWriter(w, sum)
	for _, part := range [][]byte{p.head(len(data)), data} {
		if _, err := both.Write(part); err != nil {
			return err
		}
	}
	_, err := w.Write(sum.Sum(nil))
	return err
}

// decodeHead is the page that a file's first bytes are of, which must be that of its name, and how many bytes it has.
func decodeHead(file []byte, want id) (p Page, bytes uint64, err error) {
	if len(file) < headBytes {
		return p, 0, fmt.Errorf("%d bytes, want at least %d: it was cut off", len(file), headBytes)
	}
	if got := string(file[:len(magic)]); got != magic {
		return p, 0, fmt.Errorf("it begins with %q, want %q: it is no page", got, magic)
	}
	at := len(magic)
	number := func() uint32 {
		at += 4
		return binary.LittleEndian.Uint32(file[at-4:])
	}
	if v := number(); v != version {
		return p, 0, fmt.Errorf("version %d, want %d", v, version)
	}
	p.Kind = int(number())
	at += copy(p.Parent[:], file[at:])
	count := number()
	if count < 1 || count > compute.Page {
		return p, 0, fmt.Errorf("%d tokens, want 1 to %d", count, compute.Page)
	}
	for range count {
		p.Tokens = append(p.Tokens, int32(number()))
	}
	if p.id() != want {
		return p, 0, errors.New("it says that it is another page than its name")
	}
	return p, binary.LittleEndian.Uint64(file[headBytes-8:]), nil
}

// decode is the bytes of the page in a file, so many.
func decode(file []byte, want id, size int) ([]byte, error) {
	_, bytes, err := decodeHead(file, want)
	if err != nil {
		return nil, err
	}
	end := headBytes + size
	if bytes != uint64(size) || len(file) != end+sumBytes {
		return nil, fmt.Errorf("%d bytes for a page of %d, want %d for one of %d: it was cut off", len(file), bytes, end+sumBytes, size)
	}
	if sum := sha256.Sum256(file[:end]); string(sum[:]) != string(file[end:]) {
		return nil, errors.New("its checksum does not fit: it has been changed, or the disk is failing")
	}
	return file[headBytes:end:end], nil
}

// read is the first bytes of a file, at most so many.
func read(path string, most int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	file := make([]byte, most)
	n, err := io.ReadFull(f, file)
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return nil, err
	}
	return file[:n], nil
}
