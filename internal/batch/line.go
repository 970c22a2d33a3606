package batch

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// MostBytes is the longest line that is read.
const MostBytes = 64 << 20

// Line is a line of the input.
type Line struct {
	ID     string // 32 hexadecimal digits
	Number int    // in the file, from 1
	End    int    // bytes of the file up to its end
	Text   []byte // without its end and the spaces around it
	Err    error  // instead of a text: it is too long
}

// Reader reads lines that are not blank.
type Reader struct {
	r      *bufio.Reader
	key    [sha256.Size]byte
	number int
	end    int
	most   int
	again  *Line // to be returned by Next
	before int   // end as it was before that line
}

// NewReader reads the lines of a job with a key.
func NewReader(r io.Reader, key string) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 1<<20), key: sha256.Sum256([]byte(key)), most: MostBytes}
}

// Next is the next line, or io.EOF.
func (r *Reader) Next() (Line, error) {
	if l := r.again; l != nil {
		r.again = nil
		return *l, nil
	}
	for {
		text, long, err := r.read()
		if err != nil {
			return Line{}, err
		}
		if len(text) == 0 && !long {
			continue
		}
		l := Line{ID: r.id(text), Number: r.number, End: r.end, Text: text}
		if long {
			l.Text, l.Err = nil, fmt.Errorf("the line has more than %d bytes, want fewer", r.most)
		}
		return l, nil
	}
}

// End is the bytes of the input up to the end of the last line that Next returned.
func (r *Reader) End() int {
	if r.again != nil {
		return r.before
	}
	return r.end
}

// read reads up to the next line's end. Of a line that is too long it returns the beginning.
func (r *Reader) read() (text []byte, long bool, err error) {
	for {
		part, err := r.r.ReadSlice('\n')
		r.end += len(part)
		if room := r.most + 2 - len(text); len(part) > room { // two for the line's end
			part, long = part[:room], true
		}
		text = append(text, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == nil, errors.Is(err, io.EOF) && len(text) > 0:
			r.number++
			text = bytes.TrimSpace(text)
			return text, long || len(text) > r.most, nil
		}
		return nil, false, err
	}
}

// id names a line: its first 8 digits say which job, the others which line at which place.
func (r *Reader) id(text []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%x %d ", r.key, r.number)
	h.Write(text)
	return hex.EncodeToString(r.key[:4]) + hex.EncodeToString(h.Sum(nil)[:12])
}
